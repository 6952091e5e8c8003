"""The values of each arm of the papers, typed from the papers and not read from `hparams/`.

A paper's own come first, and then those that an arm changes. Where a paper is silent, the values
are those of the code that it names.
"""

BASE = {
    "encoder.hidden_size": 768,
    "encoder.embedding_size": 768,
    "encoder.num_hidden_layers": 12,
    "encoder.num_attention_heads": 12,
    "encoder.intermediate_size": 3072,
}
LARGE = {
    "encoder.hidden_size": 1024,
    "encoder.embedding_size": 1024,
    "encoder.num_hidden_layers": 24,
    "encoder.num_attention_heads": 16,
    "encoder.intermediate_size": 4096,
}
DROPOUT = {"encoder.hidden_dropout_prob": 0.1, "encoder.attention_probs_dropout_prob": 0.1}
ADAM = {
    "weight_decay_rate": 0.01,
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-6,
    "max_gradient_norm": 1.0,
}
BERTS_MASKS = {"mask_prob": 0.15, "mask_token_prob": 0.8, "random_token_prob": 0.1}

# Gu et al. (2020), sections 2.3 and 6.1.
PUBMEDBERT = {
    **BASE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 28_895,
    "encoder.hidden_act": "gelu",  # open: NVIDIA's code has "gelu_new"
    "mask_unit": "word",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 62_500,
    "optimizer": "adamw",
    "learning_rate": 6e-4,
    "num_warmup_steps": 6_250,  # 10 % of the steps
    "schedule": "triangular",
    "adam_bias_correction": False,
}
# Clark et al. (2020), Table 6 (base), and the code.
TWO_MODELS = {
    "generator_hidden_fraction": 0.33333,
    "generator_layers_fraction": 1.0,
    "generator_weight": 1.0,
    "discriminator_weight": 50.0,
}
ELECTRAS_MASKS = {
    "mask_prob": 0.15,
    "mask_token_prob": 0.85,
    "random_token_prob": 0.0,
    "mask_with_replacement": True,
}
# Kanakarajan et al. (2021), Table 5 and appendix A; masks and weights of the losses of the code.
BIOELECTRA = {
    **BASE,
    **DROPOUT,
    **ADAM,
    "encoder.vocab_size": 28_895,
    **TWO_MODELS,
    **ELECTRAS_MASKS,
    "sequence_length": 128,
    "final_sequence_length": 512,
    "final_phase_fraction": 0.1,
    "train_batch_size": 512,
    "num_train_steps": 1_000_000,
    "learning_rate": 2e-4,
    "num_warmup_steps": 10_000,
    "gradient_clip_groups": 8,  # the cores of a TPU v3-8
}
# Clark et al. (2020), Table 6, and the code; Alrowili and Vijay-Shanker (2021), section 3.2.
BIOM_ELECTRA_BASE = {
    **BASE,
    **DROPOUT,
    **ADAM,
    "objective": "electra",
    "encoder.vocab_size": 28_895,
    **TWO_MODELS,
    **ELECTRAS_MASKS,
    "sequence_length": 512,
    "train_batch_size": 1024,
    "num_train_steps": 500_000,
    "learning_rate": 2e-4,
    "num_warmup_steps": 10_000,
    "gradient_clip_groups": 1,
}
BIOM_ELECTRA_LARGE = {
    **BIOM_ELECTRA_BASE,
    **LARGE,
    "generator_hidden_fraction": 0.25,
    "mask_prob": 0.25,
    "train_batch_size": 4096,
    "num_train_steps": 434_000,
}
# Alrowili and Vijay-Shanker (2021), section 3.3 and Table 2; ELECTRA's masks and optimizer.
BIOM_BERT_LARGE = {
    **LARGE,
    **DROPOUT,
    **ADAM,
    "objective": "mlm",
    "encoder.vocab_size": 28_996,  # BERT's cased vocabulary
    **ELECTRAS_MASKS,
    "sequence_length": 512,
    "train_batch_size": 4096,
    "num_train_steps": 700_000,
    "learning_rate": 2e-4,
    "num_warmup_steps": 10_000,
    "gradient_clip_groups": 1,
    "run.stop_at_step": 690_000,
    "run.keep_checkpoints_at": [100_000, 400_000, 690_000],  # Table 2
}
PHASE_2 = {
    "sequence_length": 512,
    "final_sequence_length": None,
    "final_phase_fraction": None,
    "num_train_steps": 100_000,
}
# Lewis et al. (2020), sections 4.1 and 5.1; RoBERTa's encoder.
BIOLM_BASE = {
    **BASE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "encoder.vocab_size": 50_265,
    "encoder.max_position_embeddings": 514,
    "encoder.type_vocab_size": 1,
    "encoder.layer_norm_eps": 1e-5,
    "encoder.position_offset": 2,
    "mask_unit": "token",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 500_000,
    "optimizer": "adamw",
    "learning_rate": 6e-4,
    "num_warmup_steps": 25_000,  # 5 % of the steps
    "schedule": "triangular",
    "adam_beta_2": 0.98,
    "adam_bias_correction": True,
    "decay_all": True,
    "max_gradient_norm": 0.0,
}
BIOLM_LARGE = {**BIOLM_BASE, **LARGE, "learning_rate": 4e-4}
# Lewis et al. (2020), section 7: 50,000 further steps, with and without a teacher.
BIOLM_LONGER = {
    **BIOLM_BASE,
    "num_train_steps": 50_000,
    "learning_rate": 5e-4,
    "num_warmup_steps": 2_500,  # 5 % of the steps
}
BIOLM_DISTILLED = {
    **BIOLM_LONGER,
    "distillation.mlm_weight": 5.0,
    "distillation.kl_weight": 2.0,
    "distillation.temperature": 2.0,
    "distillation.kl_positions": "masked",
    **{f"distillation.teacher_{x.removeprefix('encoder.')}": LARGE[x] for x in LARGE},
    "distillation.teacher_num_attention_heads": None,
}
# Alrowili and Vijay-Shanker (2021), section 3.1; what it does not name is ALBERT-xxlarge's.
BIOM_ALBERT = {
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 30_000,
    "encoder.embedding_size": 128,
    "encoder.hidden_size": 4096,
    "encoder.num_hidden_layers": 12,
    "encoder.num_attention_heads": 64,
    "encoder.intermediate_size": 16_384,
    "encoder.hidden_dropout_prob": 0.0,
    "encoder.attention_probs_dropout_prob": 0.0,
    "encoder.initializer_range": 0.01,
    "encoder.hidden_act": "gelu_new",
    "encoder.share_layers": True,
    "mask_unit": "ngram",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 264_000,
    "optimizer": "lamb",
    "learning_rate": 1.76e-3,
    "num_warmup_steps": 3_125,
    "lamb_bias_correction": False,
    "run.keep_checkpoints_at": [215_000, 264_000],  # Table 2
}
# Shin et al. (2020), section 3, of Megatron-LM's BERT: Shoeybi et al. (2020), section 4.2 and Table
# 4, and its code; the batch and the steps of BioM's Table 1.
BIOMEGATRON = {
    **LARGE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 28_996,  # BERT's cased vocabulary
    "encoder.scaled_initializer": True,
    "encoder.layer_norm_eps": 1e-5,
    "encoder.hidden_act": "gelu",
    "encoder.layer_norm_first": True,
    "mask_unit": "ngram",
    "sequence_length": 512,
    "train_batch_size": 512,
    "num_train_steps": 800_000,
    "optimizer": "adamw",
    "learning_rate": 1e-4,
    "num_warmup_steps": 10_000,
    "schedule": "triangular",
    "adam_epsilon": 1e-8,
    "adam_bias_correction": True,
}
UNCASED = {"encoder.vocab_size": 30_522}
# Of no paper: 0.83 and 1.18 billion parameters.
BIOMEGATRON_800M = {
    **BIOMEGATRON,
    "encoder.hidden_size": 1280,
    "encoder.embedding_size": 1280,
    "encoder.num_hidden_layers": 40,
    "encoder.num_attention_heads": 20,
    "encoder.intermediate_size": 5120,
}
BIOMEGATRON_1_2B = {
    **BIOMEGATRON,
    "encoder.vocab_size": 30_592,
    "encoder.hidden_size": 1536,
    "encoder.embedding_size": 1536,
    "encoder.num_hidden_layers": 40,
    "encoder.num_attention_heads": 16,
    "encoder.intermediate_size": 6144,
    # BioMegatron, Table 5.
    "num_train_steps": 500_000,
    "run.keep_checkpoints_at": [1_000, 10_000, 100_000, 200_000, 300_000, 400_000],
}

# What a file leaves out: the values of ELECTRA's code where no comment says otherwise. Of what that
# code has not, 0 or False: it is off.
DEFAULTS = {
    "objective": "electra",
    "encoder.max_position_embeddings": 512,
    "encoder.type_vocab_size": 2,
    # Of ELECTRA's code, and BERT's, RoBERTa's and Megatron-LM's.
    "encoder.initializer_range": 0.02,
    "encoder.hidden_act": "gelu",
    "encoder.layer_norm_eps": 1e-12,  # and ALBERT's; RoBERTa's and Megatron-LM's recipes have 1e-5
    "encoder.scaled_initializer": False,
    "encoder.position_offset": 0,
    "encoder.share_layers": False,
    "encoder.layer_norm_first": False,
    # ELECTRA-small's; nearly every file has its own.
    "encoder.vocab_size": 30_522,
    "encoder.embedding_size": 128,
    "encoder.hidden_size": 256,
    "encoder.num_hidden_layers": 12,
    "encoder.num_attention_heads": 4,
    "encoder.intermediate_size": 1024,
    "encoder.hidden_dropout_prob": 0.1,
    "encoder.attention_probs_dropout_prob": 0.1,
    "sequence_length": 128,
    "train_batch_size": 128,
    "num_train_steps": 1_000_000,
    "learning_rate": 5e-4,
    "num_warmup_steps": 10_000,
    **ADAM,
    # Of masks.
    "mask_prob": 0.15,
    "final_mask_prob": 0.0,
    "mask_prob_stages": 5,  # with final_mask_prob alone
    "mask_token_prob": 0.85,
    "random_token_prob": 0.0,
    "mask_unit": "token",
    "mask_with_replacement": False,  # ours; the files with ELECTRA's masks have True
    # Of the generator; the fraction and the weights are in the files that have one.
    "generator_hidden_fraction": 0.25,
    "generator_layers_fraction": 1.0,
    "generator_weight": 1.0,
    "discriminator_weight": 50.0,
    "untied_generator": True,
    "untied_generator_embeddings": False,
    "generator_intermediate_size": 0,
    "generator_num_attention_heads": 0,
    "generator_embedding_size": 0,
    "uniform_generator": False,
    "temperature": 1.0,
    "disallow_correct": False,
    "generator_warmup_steps": 0,
    "frequency_biases": False,
    # Of sentence pairs, ALUM and a teacher: there are none.
    "sentence_pair_head": False,
    "sentence_pair_loss": False,
    "adversarial.weight": 0.0,
    "adversarial.noise_deviation": 1e-5,
    "adversarial.step_size": 1e-3,
    "adversarial.epsilon": 1e-6,
    "distillation.mlm_weight": 1.0,
    "distillation.kl_weight": 0.0,
    "distillation.cosine_weight": 0.0,
    "distillation.temperature": 2.0,
    "distillation.kl_positions": "masked",
    "distillation.cosine_positions": "all",
    "distillation.teacher_embedding_size": 0,
    "distillation.teacher_hidden_size": 0,
    "distillation.teacher_num_hidden_layers": 0,
    "distillation.teacher_intermediate_size": 0,
    # Of phases.
    "final_sequence_length": 0,
    "final_phase_fraction": 0.1,
    "corpus_switch_steps": [],
    "run.stop_at_step": 0,
    "run.keep_checkpoints_at": [],
    # Of the optimizer: model/optimization.py. Its rate falls to 0 from the first step on, times the
    # warm-up.
    "optimizer": "adamw",
    "schedule": "linear",
    "adam_bias_correction": False,
    "lamb_bias_correction": True,  # with LAMB alone, of which the files have False
    "decay_all": False,
    "gradient_clip_groups": 1,
    "seed": 0,
}

# By the file: the paper's values, and what the arm changes; None: the arm lacks the setting.
ARMS = {
    # PubMedBERT, Table 7: the vocabulary and what is masked together.
    "pubmedbert": (PUBMEDBERT, {}),
    "pubmedbert_word_pieces": (PUBMEDBERT, {"mask_unit": "token"}),
    "pubmedbert_from_bert": (PUBMEDBERT, {"encoder.vocab_size": 30_522}),
    "pubmedbert_from_bert_word_pieces": (
        PUBMEDBERT,
        {"encoder.vocab_size": 30_522, "mask_unit": "token"},
    ),
    # PubMedBERT, Table 8: PMC, and 60 % more steps.
    "pubmedbert_pmc": (PUBMEDBERT, {}),
    "pubmedbert_pmc_100k": (
        PUBMEDBERT,
        {"num_train_steps": 100_000, "num_warmup_steps": 10_000},
    ),
    # PubMedBERT, Table 9, "+ adversarial": the defaults of the code of ALUM (Liu et al., 2020).
    "pubmedbert_adversarial": (
        PUBMEDBERT,
        {
            "adversarial.weight": 10.0,
            "adversarial.noise_deviation": 1e-5,
            "adversarial.step_size": 1e-3,
            "adversarial.epsilon": 1e-6,
        },
    ),
    # Of no paper.
    "pubmedbert_without_nsp": (
        PUBMEDBERT,
        {"sentence_pair_head": None, "sentence_pair_loss": None},
    ),
    # BioELECTRA, sections 4.1 and 5, and the second runs of the authors' code.
    "base": (BIOELECTRA, {}),
    "base_phase2": (BIOELECTRA, PHASE_2),
    "base_phase2_200k": (
        BIOELECTRA,
        {**PHASE_2, "num_train_steps": 200_000, "learning_rate": 1e-4},
    ),
    "bioelectra_pmc": (BIOELECTRA, {}),
    "bioelectra_pmc_2m": (BIOELECTRA, {"num_train_steps": 2_000_000}),
    "bioelectra_wikipedia": (BIOELECTRA, {"encoder.vocab_size": 30_522}),
    "bioelectra_from_electra": (
        BIOELECTRA,
        {
            "encoder.vocab_size": 30_522,
            "num_train_steps": 200_000,
            "run.keep_checkpoints_at": [100_000, 200_000],
        },
    ),
    # bio-lm, Table 3, rows 2 to 5, 7 and 8: size and vocabulary; corpora are no settings.
    "biolm_base_pm": (BIOLM_BASE, {}),
    "biolm_base_pm_voc": (BIOLM_BASE, {}),
    "biolm_base_pm_m3": (BIOLM_BASE, {}),
    "biolm_base": (BIOLM_BASE, {}),
    "biolm_large_pm_m3": (BIOLM_LARGE, {}),
    "biolm_large": (BIOLM_LARGE, {}),
    # bio-lm, section 7 and Table 6.
    "biolm_base_distilled": (BIOLM_DISTILLED, {}),
    "biolm_base_distilled_aligned": (
        BIOLM_DISTILLED,
        {"distillation.cosine_weight": 1.0, "distillation.cosine_positions": "all"},
    ),
    "biolm_base_control": (BIOLM_LONGER, {}),
    # BioM, Tables 1 and 2.
    "biom_electra_base": (BIOM_ELECTRA_BASE, {}),
    "biom_electra_large": (BIOM_ELECTRA_LARGE, {}),
    "biom_bert_large": (BIOM_BERT_LARGE, {}),
    "biom_albert": (BIOM_ALBERT, {}),
    "biom_albert_pmc": (
        BIOM_ALBERT,
        {
            "num_train_steps": 328_000,
            "corpus_switch_steps": [264_000],
            "run.keep_checkpoints_at": [215_000, 264_000, 328_000],  # Table 2
        },
    ),
    # BioMegatron, section 3: four scenarios, two vocabularies, and the larger ones.
    "biomegatron_345m_cased": (BIOMEGATRON, {}),
    "biomegatron_345m_uncased": (BIOMEGATRON, UNCASED),
    # Megatron-LM's tables of tokens are padded to a multiple of 128.
    "biomegatron_345m_cased_from_megatron": (BIOMEGATRON, {"encoder.vocab_size": 29_056}),
    "biomegatron_345m_uncased_from_megatron": (BIOMEGATRON, {"encoder.vocab_size": 30_592}),
    "biomegatron_345m_bio_30k": (BIOMEGATRON, {"encoder.vocab_size": 30_000}),
    "biomegatron_345m_bio_50k": (BIOMEGATRON, {"encoder.vocab_size": 50_000}),
    "biomegatron_800m_cased": (BIOMEGATRON_800M, {}),
    "biomegatron_800m_uncased": (BIOMEGATRON_800M, UNCASED),
    "biomegatron_1_2b_uncased_from_megatron": (BIOMEGATRON_1_2B, {}),
}
