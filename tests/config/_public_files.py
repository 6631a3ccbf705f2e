"""The public configuration files, written anew from what is documented of them: the base, the six benchmarks
and one feature.
"""

from __future__ import annotations

BASE = """
model: {
  backend: azure_openai, optimizer: gpt-5.5, target: gpt-5.5, optimizer_backend: openai_chat,
  target_backend: openai_chat, reasoning_effort: medium, rewrite_reasoning_effort: "",
  rewrite_max_completion_tokens: 64000, codex_exec_path: "", codex_exec_sandbox: "",
  codex_exec_profile: "", codex_exec_reasoning_effort: "", codex_exec_use_sdk: null,
  codex_exec_network_access: null, codex_exec_web_search: null, codex_exec_approval_policy: "",
  codex_trace_to_optimizer: true, claude_code_exec_path: claude, claude_code_exec_profile: "",
  claude_code_exec_use_sdk: auto, claude_code_exec_effort: medium,
  claude_code_exec_max_thinking_tokens: 16384, cursor_exec_path: "", cursor_exec_sandbox: "",
  copilot_exec_path: "", copilot_exec_home: "", copilot_exec_allow_all_tools: null,
  copilot_chat_optimizer_model: "", copilot_chat_target_model: "", copilot_chat_timeout: null,
  azure_openai_endpoint: "", azure_openai_api_version: 2024-12-01-preview, azure_openai_api_key: "",
  azure_openai_auth_mode: "", azure_openai_ad_scope: https://cognitiveservices.azure.com/.default,
  azure_openai_managed_identity_client_id: "", optimizer_azure_openai_endpoint: "",
  optimizer_azure_openai_api_version: "", optimizer_azure_openai_api_key: "",
  optimizer_azure_openai_auth_mode: "", optimizer_azure_openai_ad_scope: "",
  optimizer_azure_openai_managed_identity_client_id: "", target_azure_openai_endpoint: "",
  target_azure_openai_api_version: "", target_azure_openai_api_key: "",
  target_azure_openai_auth_mode: "", target_azure_openai_ad_scope: "",
  target_azure_openai_managed_identity_client_id: "", qwen_chat_thinking_mode: "",
  optimizer_qwen_chat_thinking_mode: "", target_qwen_chat_thinking_mode: "", minimax_region: "",
  minimax_base_url: "", minimax_api_key: "", minimax_model: MiniMax-M3, minimax_temperature: 0.7,
  minimax_max_tokens: 8000, minimax_enable_thinking: false, optimizer_minimax_base_url: "",
  optimizer_minimax_api_key: "", target_minimax_base_url: "", target_minimax_api_key: ""
}
train: {
  num_epochs: 4, train_size: 0, batch_size: 40, accumulation: 1, seed: 42
}
gradient: {
  minibatch_size: 8, merge_batch_size: 8, analyst_workers: 16, failure_only: false
}
optimizer: {
  learning_rate: 4, min_learning_rate: 2, lr_scheduler: cosine, lr_control_mode: fixed,
  skill_update_mode: patch, use_slow_update: true, slow_update_samples: 20,
  slow_update_gate_with_selection: false, longitudinal_pair_policy: mixed, use_meta_skill: true,
  use_skill_aware_reflection: false, skill_aware_appendix_source: both,
  skill_aware_consolidate_threshold: 0
}
evaluation: {
  use_gate: true, gate_metric: hard, gate_mixed_weight: 0.5, use_semantic_density: false,
  semantic_density_weight: 0.05, sel_env_num: 0, test_env_num: 0, eval_test: true
}
env: {
  name: "", skill_init: "", out_root: "", split_mode: ratio, split_ratio: 2:1:7, split_seed: 42,
  split_dir: "", data_path: "", split_output_dir: "", exec_timeout: 120
}
"""


def benchmark(name: str, env: str, train: str = "train_size: 0") -> str:
    return f"_base_: ../_base_/default.yaml\n\ntrain:\n  {train}\n\nenv:\n  name: {name}\n" + "".join(
        f"  {line.strip()}\n" for line in env.strip().splitlines()
    )


BENCHMARKS = {
    "searchqa": benchmark(
        "searchqa",
        """
        workers: 24
        max_turns: 1
        max_completion_tokens: 16384
        exec_timeout: 120
        """,
        "train_size: 400",
    ),
    "alfworld": benchmark(
        "alfworld",
        """
        workers: 8
        max_api_workers: 8
        max_steps: 50
        max_completion_tokens: 16384
        """,
    ),
    "docvqa": benchmark(
        "docvqa",
        """
        workers: 16
        max_turns: 1
        image_detail: auto
        exec_timeout: 120
        """,
    ),
    "livemathematicianbench": benchmark(
        "livemathematicianbench",
        """
        workers: 64
        exec_timeout: 300
        max_turns: 1
        shuffle_choices: true
        use_theorem: false
        use_sketch: false
        """,
    ),
    "spreadsheetbench": benchmark(
        "spreadsheetbench",
        """
        mode: multi
        max_turns: 30
        exec_timeout: 600
        workers: 24
        data_root: data/spreadsheetbench_verified_400
        """,
        "train_size: 80",
    ),
    "officeqa": benchmark(
        "officeqa",
        """
        workers: 4
        max_tool_turns: 24
        search_mode: offline
        max_queries_per_turn: 4
        data_dirs: [data/officeqa_docs_official]
        search_api_url: http://search.example/api
        search_timeout: 30
        """,
    ),
}
FILES = {
    "_base_/default.yaml": BASE,
    "features/soft_gate.yaml": "_base_: ../_base_/default.yaml\n\nevaluation:\n  gate_metric: soft\n",
    **{f"{name}/default.yaml": text for name, text in BENCHMARKS.items()},
}
