"""Decides what every public key and flag name means here: a key of ours, an alias, dead, or known and not supported yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FLAT: Mapping[str, str] = {
    "optimizer_model": "model.optimizer",
    "target_model": "model.target",
    "backend": "model.backend",
    "model_backend": "model.backend",
    "optimizer_backend": "model.optimizer_backend",
    "target_backend": "model.target_backend",
    "reasoning_effort": "model.reasoning_effort",
    "azure_openai_endpoint": "model.azure_openai_endpoint",
    "azure_openai_api_key": "model.azure_openai_api_key",
    "azure_openai_auth_mode": "model.azure_openai_auth_mode",
    "num_epochs": "train.num_epochs",
    "train_size": "train.train_size",
    "batch_size": "train.batch_size",
    "accumulation": "train.accumulation",
    "seed": "train.seed",
    "minibatch_size": "gradient.minibatch_size",
    "merge_batch_size": "gradient.merge_batch_size",
    "analyst_workers": "gradient.analyst_workers",
    "failure_only": "gradient.failure_only",
    "edit_budget": "optimizer.learning_rate",
    "min_edit_budget": "optimizer.min_learning_rate",
    "lr_scheduler": "optimizer.lr_scheduler",
    "lr_control_mode": "optimizer.lr_control_mode",
    "skill_update_mode": "optimizer.skill_update_mode",
    "use_slow_update": "optimizer.use_slow_update",
    "slow_update_samples": "optimizer.slow_update_samples",
    "slow_update_gate_with_selection": "optimizer.slow_update_gate_with_selection",
    "use_meta_skill": "optimizer.use_meta_skill",
    "use_gate": "evaluation.use_gate",
    "gate_metric": "evaluation.gate_metric",
    "gate_mixed_weight": "evaluation.gate_mixed_weight",
    "sel_env_num": "evaluation.sel_env_num",
    "test_env_num": "evaluation.test_env_num",
    "eval_test": "evaluation.eval_test",
    "repeats": "evaluation.repeats",
    "env": "env.name",
    "skill_init": "env.skill_init",
    "out_root": "env.out_root",
    "workers": "env.workers",
    "exec_timeout": "env.exec_timeout",
    "max_completion_tokens": "env.max_completion_tokens",
    "split_mode": "env.split_mode",
    "split_ratio": "env.split_ratio",
    "split_seed": "env.split_seed",
    "split_dir": "env.split_dir",
    "data_path": "env.data_path",
    "limit": "env.limit",
    "budget": "budget",
}
"""Flag and legacy flat name to dotted key. A name not listed here is tried as a key of the benchmark (`env.<name>`)."""

ALIASES: Mapping[str, str] = {
    "model.azure_endpoint": "model.azure_openai_endpoint",
    "model.azure_api_key": "model.azure_openai_api_key",
    "env.max_completion_tokens": "model.target.max_tokens",
}
"""Second names of a key: the same key to every rule, so two different values in one layer are an error."""

DEAD: Mapping[str, str] = {
    "train.steps_per_epoch": "it follows from the train split and the batch size",
    "gradient.max_analyst_rounds": "every minibatch is read once",
    "optimizer.meta_learning_rate": "the meta skill has no limit of its own",
    "model.codex_exec_full_auto": "use the sandbox settings of the agent",
    "env.judge_model": "nothing reads it",
    "env.judge_max_completion_tokens": "nothing reads it",
    "env.judge_retries": "nothing reads it",
}
"""Public keys without an effect, and why: they load with one warning."""

_AZURE_REST: Mapping[str, tuple[Any, ...]] = {
    "api_version": ("2024-12-01-preview",),
    "ad_scope": ("https://cognitiveservices.azure.com/.default",),
    "managed_identity_client_id": (),
}
_QWEN = ("base_url", "api_key", "temperature", "timeout_seconds", "max_tokens", "enable_thinking", "thinking_mode")

LATER: Mapping[str, tuple[Any, ...]] = {
    **{f"model.codex_exec_{key}": () for key in ("path", "sandbox", "profile", "reasoning_effort", "use_sdk", "network_access")},
    **{f"model.codex_exec_{key}": () for key in ("web_search", "approval_policy")},
    "model.codex_trace_to_optimizer": (True, False),
    "model.claude_code_exec_path": ("claude",),
    "model.claude_code_exec_profile": (),
    "model.claude_code_exec_use_sdk": ("auto",),
    "model.claude_code_exec_effort": ("medium",),
    "model.claude_code_exec_max_thinking_tokens": (16384,),
    **{f"model.cursor_exec_{key}": () for key in ("path", "sandbox")},
    **{f"model.copilot_exec_{key}": () for key in ("path", "home", "allow_all_tools")},
    **{f"model.copilot_chat_{key}": () for key in ("optimizer_model", "target_model", "timeout")},
    **{f"model.azure_openai_{key}": harmless for key, harmless in _AZURE_REST.items()},
    "model.azure_api_version": _AZURE_REST["api_version"],
    **{f"model.{role}_azure_openai_{key}": harmless for role in ("optimizer", "target") for key, harmless in _AZURE_REST.items()},
    **{f"model.{role}_azure_openai_{key}": () for role in ("optimizer", "target") for key in ("endpoint", "api_key", "auth_mode")},
    **{f"model.{role}qwen_chat_{key}": () for role in ("", "optimizer_", "target_") for key in _QWEN},
    **{f"model.minimax_{key}": () for key in ("region", "base_url", "api_key")},
    "model.minimax_model": ("MiniMax-M3",),
    "model.minimax_temperature": (0.7,),
    "model.minimax_max_tokens": (8000,),
    "model.minimax_enable_thinking": (False,),
    **{f"model.{role}_minimax_{key}": () for role in ("optimizer", "target") for key in ("base_url", "api_key")},
    "evaluation.use_semantic_density": (False,),
    "evaluation.semantic_density_weight": (0.05,),
    "evaluation.leading_words": ("builtin",),
    "env.max_turns": (1,),
    "env.split_output_dir": (),
}
"""Public keys of parts that are not here yet, with the values that ask for nothing: those (and a blank) load silently, others are an error.
A benchmark that has such an `env` key of its own comes first."""

LATER_VALUES: Mapping[str, tuple[Any, ...]] = {}
"""Values of live keys that are known and not supported yet."""

VARIABLES: Mapping[str, str] = {
    "OPTIMIZER_DEPLOYMENT": "model.optimizer.name",
    "TARGET_DEPLOYMENT": "model.target.name",
    "OPTIMIZER_BACKEND": "model.optimizer_backend",
    "TARGET_BACKEND": "model.target_backend",
    "AZURE_OPENAI_ENDPOINT": "model.azure_openai_endpoint",
    "AZURE_OPENAI_API_KEY": "model.azure_openai_api_key",
    "AZURE_OPENAI_AUTH_MODE": "model.azure_openai_auth_mode",
}
"""Environment variables that name one key. Those of a provider, which apply per role, are in `environment.py`."""

_FLAT_REST: Mapping[str, str] = {
    **{key.rpartition(".")[2]: key for key in (*LATER, *DEAD) if not key.startswith("env.")},
    "azure_endpoint": "model.azure_openai_endpoint",
    "azure_api_key": "model.azure_openai_api_key",
    "meta_edit_budget": "optimizer.meta_learning_rate",
}


def dotted(name: str) -> str:
    """The dotted key of a flag or legacy flat name."""
    if "." in name:
        return name
    return FLAT.get(name) or _FLAT_REST.get(name) or f"env.{name}"
