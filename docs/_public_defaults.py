"""The public defaults for the settings page: which value each public key ships with, and why ours differs
where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNSENT = "a knob left unset sends nothing"
_PROGRAM = "unset leaves it to the program"
_SAME_CAP = (
    "unset is the same number, and is not sent where nobody asked for it and the server may not take it"
)
_NO_CAP = "the cap of a role is model.<role>.max_tokens; a smaller one nobody asked for would cut replies"

PUBLIC: Mapping[str, Any] = {
    "model.optimizer.name": "gpt-5.5",
    "model.target.name": "gpt-5.5",
    "model.optimizer.max_tokens": 16384,
    "model.target.max_tokens": 16384,
    "model.backend": "azure_openai",
    "model.optimizer_backend": "openai_chat",
    "model.target_backend": "openai_chat",
    "model.reasoning_effort": "medium",
    "model.rewrite_reasoning_effort": "",
    "model.rewrite_max_completion_tokens": 64000,
    "model.codex_exec_path": "",
    "model.codex_exec_sandbox": "",
    "model.codex_exec_profile": "",
    "model.codex_exec_reasoning_effort": "",
    "model.codex_exec_use_sdk": None,
    "model.codex_exec_network_access": None,
    "model.codex_exec_web_search": None,
    "model.codex_exec_approval_policy": "",
    "model.claude_code_exec_path": "claude",
    "model.claude_code_exec_profile": "",
    "model.claude_code_exec_use_sdk": "auto",
    "model.claude_code_exec_effort": "medium",
    "model.claude_code_exec_max_thinking_tokens": 16384,
    "model.cursor_exec_path": "",
    "model.cursor_exec_sandbox": "",
    "model.copilot_exec_path": "",
    "model.copilot_exec_home": "",
    "model.copilot_exec_allow_all_tools": None,
    "model.copilot_chat_optimizer_model": "",
    "model.copilot_chat_target_model": "",
    "model.copilot_chat_timeout": None,
    "model.azure_openai_endpoint": "",
    "model.azure_openai_api_version": "2024-12-01-preview",
    "model.azure_openai_api_key": "",
    "model.azure_openai_auth_mode": "azure_cli",
    "model.azure_openai_ad_scope": "https://cognitiveservices.azure.com/.default",
    "model.azure_openai_managed_identity_client_id": "",
    "model.qwen_chat_base_url": "http://localhost:8000/v1",
    "model.qwen_chat_api_key": "",
    "model.qwen_chat_model": "Qwen/Qwen3.5-4B",
    "model.qwen_chat_temperature": 0.7,
    "model.qwen_chat_timeout_seconds": 300,
    "model.qwen_chat_max_tokens": 8000,
    "model.qwen_chat_enable_thinking": False,
    "model.qwen_chat_thinking_mode": "",
    "model.minimax_region": "",
    "model.minimax_base_url": "",
    "model.minimax_api_key": "",
    "model.minimax_model": "MiniMax-M3",
    "model.minimax_temperature": 0.7,
    "model.minimax_max_tokens": 8000,
    "model.minimax_enable_thinking": False,
    "model.openai_compatible_base_url": "https://api.openai.com/v1",
    "model.openai_compatible_max_tokens": 8000,
    "model.openai_compatible_timeout_seconds": 300,
    "train.num_epochs": 4,
    "train.train_size": 0,
    "train.batch_size": 40,
    "train.accumulation": 1,
    "train.seed": 42,
    "gradient.minibatch_size": 8,
    "gradient.merge_batch_size": 8,
    "gradient.analyst_workers": 16,
    "gradient.failure_only": False,
    "optimizer.learning_rate": 4,
    "optimizer.min_learning_rate": 2,
    "optimizer.lr_scheduler": "cosine",
    "optimizer.lr_control_mode": "fixed",
    "optimizer.skill_update_mode": "patch",
    "optimizer.use_slow_update": True,
    "optimizer.slow_update_samples": 20,
    "optimizer.slow_update_gate_with_selection": False,
    "optimizer.longitudinal_pair_policy": "mixed",
    "optimizer.use_meta_skill": True,
    "optimizer.use_skill_aware_reflection": False,
    "optimizer.skill_aware_appendix_source": "both",
    "optimizer.skill_aware_consolidate_threshold": 0,
    "evaluation.use_gate": True,
    "evaluation.gate_metric": "hard",
    "evaluation.gate_mixed_weight": 0.5,
    "evaluation.sel_env_num": 0,
    "evaluation.test_env_num": 0,
    "evaluation.eval_test": True,
    "env.name": "",
    "env.skill_init": "",
    "env.out_root": "",
    "env.exec_timeout": 120,
    "env.split_mode": "ratio",
    "env.split_ratio": "2:1:7",
    "env.split_seed": 42,
    "env.split_dir": "",
    "env.data_path": "",
    "env.limit": 0,
    "env.max_steps": 50,
    "env.image_detail": "auto",
    "env.shuffle_choices": True,
    "env.use_theorem": False,
    "env.use_sketch": False,
    "env.mode": "multi",
    "env.max_tool_turns": 24,
    "env.search_mode": "offline",
}
"""Public key to the value it ships with, or that its backend then takes. A key that is not here is ours."""

WHY: Mapping[str, str] = {
    "evaluation.eval_test": "unset, a test of the seed alone costs no look; our benchmark configs say true",
    "model.optimizer.max_tokens": _SAME_CAP,
    "model.target.max_tokens": _SAME_CAP,
    "model.backend": "unset, a bare name goes to Azure where an Azure endpoint is configured, else to OpenAI",
    "model.optimizer_backend": "unset means the same as openai_chat",
    "model.target_backend": "unset means the same as openai_chat",
    "model.reasoning_effort": _UNSENT,
    "model.claude_code_exec_path": "unset is the program of that name on the PATH",
    "model.claude_code_exec_use_sdk": _PROGRAM,
    "model.claude_code_exec_effort": _PROGRAM,
    "model.claude_code_exec_max_thinking_tokens": _PROGRAM,
    "model.azure_openai_auth_mode": "unset is api_key where a key is known, else azure_cli",
    "model.azure_openai_api_version": "unset is the provider's own choice",
    "model.azure_openai_ad_scope": "unset is the same scope",
    "model.qwen_chat_base_url": "unset is the same address",
    "model.qwen_chat_model": "unset is the same model",
    "model.qwen_chat_temperature": _UNSENT,
    "model.qwen_chat_timeout_seconds": "one time limit for every provider: env.exec_timeout",
    "model.qwen_chat_max_tokens": _NO_CAP,
    "model.qwen_chat_enable_thinking": _UNSENT,
    "model.minimax_model": "unset is the same model; a role that names its own keeps it",
    "model.minimax_temperature": _UNSENT,
    "model.minimax_max_tokens": _NO_CAP,
    "model.minimax_enable_thinking": _UNSENT,
    "model.openai_compatible_base_url": "an endpoint is named, not guessed",
    "model.openai_compatible_max_tokens": _NO_CAP,
    "model.openai_compatible_timeout_seconds": "one time limit for every provider: env.exec_timeout",
    "optimizer.slow_update_gate_with_selection": "the paper and its released skills measured every change",
    "evaluation.gate_metric": "unset is hard, but soft for a scorer that only gives partial credit",
    "env.split_mode": "unset is split_dir where a folder is given, else ratio",
    "env.split_ratio": "few tasks need more of them in val and fewer in test",
}
"""Why our default is another one: for exactly the keys of `PUBLIC` where it is. `env` keys speak of the
benchmarks that differ.
"""


def public_default(key: str) -> Any:
    """The public default of a key as it is printed; a blank one is unset."""
    value = PUBLIC.get(key)
    return None if value == "" else value


def differs(key: str, ours: Any) -> bool:
    """True when the key is public and ships with another value there."""
    return key in PUBLIC and public_default(key) != (None if ours == "" else ours)
