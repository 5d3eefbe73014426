"""Suggestions for misspelt names and for names of other toolkits.

The names come from fairseq, OpenNMT, JoeyNMT, Marian, Sockeye and Hugging Face; some are likely guesses of users.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

OTHER_NAMES = {
    "data.direction": "src tgt source target src_lang tgt_lang source_lang target_lang source_language target_language "
    "lang_pair language_pair pair",
    "data.directions": "lang_pairs language_pairs",
    "data.dir": "data_dir data_path destdir prepared dataset_dir output_dir",
    "data.train": "train_data train_path train_file train_files train_set train_sets train_src train_tgt path_src "
    "path_tgt trainpref corpora corpus train_datasets",
    "data.valid": "dev dev_data dev_set valid_data valid_path valid_set valid_sets valid_src valid_tgt validpref "
    "validation validation_data validation_file val eval_data",
    "data.test": "test_data test_set test_sets test_path test_file testpref",
    "data.max_pieces": "max_length max_len max_seq_len max_seq_length max_sentence_length max_source_length "
    "max_target_length max_input_length max_tokens_per_sentence src_seq_length tgt_seq_length",
    "data.max_ratio": "length_ratio max_length_ratio ratio",
    "tokenizer.vocab_size": "size vocab vocab_sizes voc_limit dim_vocabs bpe_size bpe_ops num_ops n_ops merges "
    "num_merges bpe_merges bpe_operations src_vocab_size tgt_vocab_size nwordssrc nwordstgt num_words",
    "tokenizer.kind": "bpe tokenizer_type subword subword_type",
    "tokenizer.model": "tokenizer_model spm sentencepiece_model",
    "tokenizer.joint": "joined_dictionary joint_vocab joint_bpe share_vocab shared_vocab share_vocabulary",
    "model.d_model": "hidden_size rnn_size emb_dim emb_size dim_emb embed_dim embedding_dim embedding_size "
    "encoder_embed_dim decoder_embed_dim word_vec_size model_dim model_size transformer_model_size dim width",
    "model.n_heads": "heads num_heads nhead nheads attention_heads num_attention_heads encoder_attention_heads "
    "decoder_attention_heads transformer_heads transformer_attention_heads",
    "model.d_ff": "ff ffn ffn_dim ff_dim ff_size ffn_size dim_feedforward feed_forward_dim intermediate_size "
    "hidden_dim encoder_ffn_embed_dim decoder_ffn_embed_dim encoder_ffn_dim decoder_ffn_dim transformer_ff "
    "transformer_dim_ffn",
    "model.encoder_layers": "layers num_layers n_layers depth enc_layers enc_depth num_encoder_layers n_encoder_layers",
    "model.decoder_layers": "layers num_layers n_layers depth dec_layers dec_depth num_decoder_layers n_decoder_layers",
    "model.norm": "pre_norm prenorm post_norm normalize_before encoder_normalize_before decoder_normalize_before "
    "layer_norm layer_norm_position norm_first",
    "model.positions": "position_encoding positional_encoding pos_enc learned_pos encoder_learned_pos",
    "model.max_positions": "max_source_positions max_target_positions max_position_embeddings max_relative_positions",
    "model.activation": "activation_fn activation_function pos_ffn_activation_fn transformer_ffn_activation",
    "model.tie_embeddings": "share_embeddings share_all_embeddings share_decoder_input_output_embed "
    "share_decoder_embeddings tied_embeddings tied_embeddings_all tied_softmax tie_word_embeddings tie_weights "
    "weight_tying weight_tying_type",
    "model.embedding_dropout": "dropout emb_dropout embed_dropout",
    "model.residual_dropout": "dropout hidden_dropout transformer_dropout",
    "model.attention_dropout": "dropout attn_dropout transformer_dropout_attention",
    "model.activation_dropout": "dropout act_dropout relu_dropout ffn_dropout transformer_dropout_ffn",
    "training.run_dir": "save_dir save_model model_dir checkpoint_dir output_dir output run_name exp_dir",
    "training.seed": "random_seed manual_seed rng_seed",
    "training.device": "cuda use_cuda no_cuda gpu use_gpu cpu use_cpu gpu_ranks accelerator",
    "training.parallel": "ddp_backend fsdp strategy",
    "training.precision": "fp16 bf16 amp half float16 bfloat16 mixed_precision model_dtype dtype fp16_backend",
    "training.compile": "torch_compile",
    "training.update_tokens": "batch_size batch batch_tokens train_batch_size per_device_train_batch_size mini_batch "
    "mini_batch_words normalization update_freq accum_count accumulate_grad_batches gradient_accumulation "
    "gradient_accumulation_steps grad_accum batch_multiplier tokens_per_batch update_interval",
    "training.max_tokens": "micro_batch micro_batch_size max_tokens_per_gpu workspace",
    "training.label_smoothing": "smoothing label_smoothing_factor ls",
    "training.init_from": "restore_file load_from load_model train_from pretrained pretrained_model "
    "finetune_from_model model_name_or_path",
    "training.optimizer": "optim optimiser",
    "training.betas": "adam_betas adam_beta1 adam_beta2",
    "training.eps": "adam_eps adam_epsilon epsilon",
    "training.weight_decay": "wd l2",
    "training.schedule": "scheduler scheduling lr_scheduler lr_schedule lr_scheduler_type learning_rate_scheduler "
    "learning_rate_scheduler_type decay_method lr_decay",
    "training.peak_lr": "lr learning_rate max_lr initial_lr initial_learning_rate base_lr learn_rate",
    "training.warmup_steps": "warmup warmup_updates warmup_ratio num_warmup_steps lr_warmup learning_rate_warmup "
    "warmup_init_lr",
    "training.clip_norm": "clip clip_grad_norm max_grad_norm grad_clip gradient_clip gradient_clipping clip_gradient "
    "grad_norm gradient_clip_val gradient_clipping_threshold",
    "training.max_steps": "steps updates iterations iters max_update max_updates max_iter max_iters train_steps "
    "training_steps max_train_steps num_steps num_train_steps num_updates total_steps n_steps total_num_update "
    "after_batches",
    "training.max_epochs": "epochs epoch max_epoch num_epochs n_epochs nb_epochs num_train_epochs "
    "train_epochs after_epochs",
    "training.max_minutes": "max_time max_hours max_seconds stop_time_hours time_limit timeout",
    "training.log_every_steps": "log_interval log_every log_freq logging_freq logging_steps report_every report_freq "
    "disp_freq",
    "training.validate_every_steps": "valid_steps val_interval valid_interval valid_freq valid_every validate_interval "
    "validate_interval_updates validation_freq eval_steps eval_every eval_interval checkpoint_interval "
    "checkpoint_frequency",
    "training.save_every_steps": "save_steps save_interval save_interval_updates save_checkpoint_steps save_freq "
    "save_every",
    "training.ema": "ema_decay exponential_smoothing average_decay moving_average_decay moving_average",
    "training.keep_last": "keep_checkpoint keep_checkpoints keep_last_epochs keep_interval_updates keep_best_ckpts "
    "save_total_limit max_checkpoints max_to_keep",
    "training.average_last": "average_checkpoints checkpoint_averaging n_average num_average",
    "training.select_by": "metric eval_metric valid_metrics best_checkpoint_metric metric_for_best_model "
    "early_stopping_metric optimized_metric",
    "training.report_to": "tensorboard tensorboard_logdir wandb wandb_project use_wandb logger loggers",
    "training.patience": "early_stopping early_stop early_stopping_patience max_num_checkpoint_not_improved",
    "search.beam": "beam_size beam_width num_beams n_beams beams width",
    "search.length_penalty": "lenpen length_alpha beam_alpha alpha normalize length_penalty_alpha",
    "search.sample": "sampling do_sample random_sampling output_sampling",
    "search.temperature": "temp sampling_temperature random_sampling_temp",
    "search.top_k": "topk sampling_topk random_sampling_topk",
    "search.top_p": "topp sampling_topp random_sampling_topp nucleus",
    "search.diversity_groups": "diverse_beam_groups num_beam_groups",
    "search.diversity": "diverse_beam_strength diversity_penalty diversity_strength",
    "search.min_length": "min_len min_output_length min_new_tokens min_decoding_length",
    "search.max_length_ratio": "max_len_a max_output_length_factor max_length_factor",
    "search.max_length_offset": "max_len_b max_length max_len max_output_length max_new_tokens max_decoding_length",
    "search.no_repeat_ngram": "no_repeat_ngram_size block_ngram_repeat ngram_blocking",
    "search.batch_tokens": "max_tokens max_batch_tokens batch_size eval_batch_size per_device_eval_batch_size "
    "mini_batch max_batch_size",
}
"""For each setting, names of the same or similar settings in other toolkits."""

NO_SETTING = {
    "model_type arch architecture": "the model is always a Transformer; its sizes are set in model",
    "lowercase lower lowercasing": "case is always preserved; nmt evaluate --lowercase ignores case in scores",
    "n_best nbest num_return_sequences": "nmt translate --n-best N prints several translations per line",
    "workers num_workers dataloader_num_workers threads num_threads n_threads cpu_threads":
        "the environment variable OMP_NUM_THREADS sets the number of threads",
    "world_size n_gpu n_gpus num_gpus gpus devices distributed_world_size nproc_per_node":
        "torchrun --nproc-per-node N -m -- nmt train … trains on N GPUs",
    "resume resume_from resume_from_checkpoint reset_optimizer": "nmt train --resume continues a run",
    "logdir log_dir log_file": "log.jsonl is always written to the run directory",
}  # fmt: skip
"""Settings of other toolkits that have no counterpart, and what to use instead."""

OTHER_VALUES = {
    "transformers": "hf huggingface hugging_face",
    "ctranslate2": "ct2 faster",
    "argos": "argosmodel libretranslate",
    "float32": "fp32 full single",
    "fp16": "float16 half amp",
    "float16": "fp16 half",
    "bf16": "bfloat16",
    "int8": "int4 q8 quantized",
    "ema": "moving_average",
    "cpu": "mps",
    "cuda": "gpu cuda:0",
    "relu": "rectified",
    "gelu": "gelu_new gelu_fast",
    "inverse_sqrt": "isqrt rsqrt invsqrt inverse_square_root",
    "noam": "transformer",
    "bleu": "sacrebleu",
}
"""For each value of a setting or option, its names in other toolkits."""

_MEANT: dict[str, list[str]] = {}
for _key, _names in OTHER_NAMES.items():
    for _name in _names.split():
        _MEANT.setdefault(_name, []).append(_key)
_NOTES = {name: note for names, note in NO_SETTING.items() for name in names.split()}

BESIDES = {
    "training.update_tokens": "in target tokens",
    "search.batch_tokens": "in source tokens",
    "training.peak_lr": "with the schedule noam, training.factor",
}
"""Remarks on suggested settings: a unit that differs from other toolkits, or a setting that applies instead."""


def equivalent_settings(name: str, section: str = "") -> list[str]:
    """Return the keys of the settings that another toolkit calls `name`, preferably in `section`."""
    keys = _MEANT.get(plain(name), [])
    return [key for key in keys if key.startswith(f"{section}.")] or keys


def advice_on(name: str) -> str | None:
    """Return advice on a setting of another toolkit that has no counterpart; None if there is no advice."""
    return _NOTES.get(plain(name))


def plain(name: str) -> str:
    """Return a normalised name: `--Max-Steps` -> `max_steps`."""
    return name.lstrip("-").lower().replace("-", "_")


def misspelt(name: str, candidates: Iterable[str], cutoff: float = 0.75) -> list[str]:
    """Return the candidate with the most similar spelling, as a list of one or none.

    cutoff: minimum similarity as in difflib, where `baem` and `beam` have a similarity of 0.75.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    return [known[match] for match in difflib.get_close_matches(plain(name), known, n=1, cutoff=cutoff)]


def nearest_value(value: str, choices: Sequence[str]) -> list[str]:
    """Return the choices that `value` may refer to, by their names in other toolkits or by spelling."""
    equivalent = [choice for choice in choices if plain(value) in OTHER_VALUES.get(choice, "").split()]
    return equivalent or misspelt(value, choices, cutoff=0.6)


def matching_words(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that share words with `name`.

    These are the candidates that contain all words of `name`, or else begin with it, or else have no other words.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    plain_name = plain(name)
    words = {*plain_name.split("_")}
    with_all = list[str]()
    with_beginning = list[str]()
    with_no_others = list[str]()
    for key, candidate in known.items():
        its_words = {*key.split("_")}
        if words <= its_words:
            with_all.append(candidate)
        if len(plain_name) >= 4 and key.startswith(plain_name):
            with_beginning.append(candidate)
        if its_words <= words:
            with_no_others.append(candidate)
    return with_all or with_beginning or with_no_others


def listed(names: Sequence[str]) -> str:
    """Format names as `a, b or c`, with remarks from `BESIDES`."""
    remarked = []
    for name in names:
        if name in BESIDES:
            name = f"{name} ({BESIDES[name]})"
        remarked.append(name)
    *first_names, last = dict.fromkeys(remarked)
    return f"{', '.join(first_names)} or {last}" if first_names else last


def did_you_mean(names: Sequence[str]) -> str:
    """Return `; did you mean a, b or c?`, or empty text if there are no names."""
    return f"; did you mean {listed(names)}?" if names else ""
