"""The models of docs/models.md, written with PyTorch's own modules, with the parameter names of trainctl."""
import math

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotary_tables(head_width, length, theta):
    frequency = theta ** -(torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().float(), angle.sin().float()


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.n_heads, self.dropout = m["n_heads"], m["dropout"]
        self.qkv = nn.Linear(m["d_model"], 3 * m["d_model"], bias=m["bias"])
        self.out = nn.Linear(m["d_model"], m["d_model"], bias=m["bias"])
        self.rotary = None
        if m["position"] == "rotary":
            self.rotary = rotary_tables(m["d_model"] // m["n_heads"], m["max_seq_len"], m["rope_theta"])

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.n_heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        if self.rotary is not None:
            cos, sin = (table[:time] for table in self.rotary)
            q = q * cos + rotate_half(q) * sin
            k = k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Mlp(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.activation = m["activation"]
        if self.activation == "swiglu":
            self.gate_up = nn.Linear(m["d_model"], 2 * m["d_ff"], bias=m["bias"])
        else:
            self.up = nn.Linear(m["d_model"], m["d_ff"], bias=m["bias"])
        self.down = nn.Linear(m["d_ff"], m["d_model"], bias=m["bias"])

    def forward(self, x):
        if self.activation == "swiglu":
            gate, value = self.gate_up(x).chunk(2, dim=-1)
            return self.down(F.silu(gate) * value)
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.pre_norm = m["norm_order"] == "pre"
        self.attention_norm = nn.LayerNorm(m["d_model"], eps=m["norm_eps"], bias=m["bias"])
        self.attention = Attention(m)
        self.mlp_norm = nn.LayerNorm(m["d_model"], eps=m["norm_eps"], bias=m["bias"])
        self.mlp = Mlp(m)
        self.drop = nn.Dropout(m["dropout"])

    def forward(self, x):
        if self.pre_norm:
            x = x + self.drop(self.attention(self.attention_norm(x)))
            return x + self.drop(self.mlp(self.mlp_norm(x)))
        x = self.attention_norm(x + self.drop(self.attention(x)))
        return self.mlp_norm(x + self.drop(self.mlp(x)))


class Gpt(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.token_embedding = nn.Embedding(m["vocab_size"], m["d_model"])
        self.position_embedding = None
        if m["position"] == "learned":
            self.position_embedding = nn.Embedding(m["max_seq_len"], m["d_model"])
        self.drop = nn.Dropout(m["dropout"])
        self.layers = nn.ModuleList(Block(m) for _ in range(m["n_layers"]))
        self.final_norm = nn.Identity()
        if m["norm_order"] == "pre":
            self.final_norm = nn.LayerNorm(m["d_model"], eps=m["norm_eps"], bias=m["bias"])
        self.head = nn.Linear(m["d_model"], m["vocab_size"], bias=False)
        if m["tie_embeddings"]:
            self.head.weight = self.token_embedding.weight
        self.initialise(m)

    def initialise(self, m):
        """nanoGPT's rule (GPT._init_weights and the scaling of c_proj)."""
        for name, p in self.named_parameters():
            if p.dim() < 2:
                continue
            residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
            nn.init.normal_(p, std=m["init_std"] / (math.sqrt(2 * m["n_layers"]) if residual else 1))
            module = self.get_submodule(name.rpartition(".")[0])
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            x = x + self.position_embedding(torch.arange(tokens.shape[1]))
        x = self.drop(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.final_norm(x))


class Encoder(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.pooling = m["pooling"]
        self.token_embedding = nn.Embedding(m["vocab_size"], m["d_model"])
        self.position_embedding = nn.Embedding(m["max_seq_len"], m["d_model"])
        layer = nn.TransformerEncoderLayer(
            m["d_model"], m["n_heads"], m["d_ff"], m["dropout"], activation=ACTIVATIONS[m["activation"]],
            layer_norm_eps=m["norm_eps"], norm_first=m["norm_order"] == "pre", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, m["n_layers"], enable_nested_tensor=False)
        self.head = nn.Linear(m["d_model"], m["n_classes"] or m["vocab_size"])

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[1]))
        x = self.encoder(x)
        if self.pooling == "mean":
            x = x.mean(dim=1)
        elif self.pooling == "first":
            x = x[:, 0]
        return self.head(x)


GPT_DEFAULTS = {
    "vocab_size": 53, "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48, "max_seq_len": 16,
    "dropout": 0.0, "norm_order": "pre", "norm_eps": 1e-5, "activation": "gelu", "position": "learned",
    "rope_theta": 10000.0, "tie_embeddings": True, "bias": True, "init_std": 0.02,
}
ENCODER_DEFAULTS = {
    "vocab_size": 53, "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48, "max_seq_len": 16,
    "dropout": 0.0, "norm_order": "post", "norm_eps": 1e-5, "activation": "relu", "pooling": "none",
    "n_classes": 0,
}


def model_section(kind, **options):
    """The "model" section of a config, all keys given."""
    defaults = GPT_DEFAULTS if kind == "gpt" else ENCODER_DEFAULTS
    assert not options.keys() - defaults.keys()
    section = {"type": kind, **defaults, **options}
    if kind == "gpt" and section["position"] != "rotary":
        del section["rope_theta"]  # refused where it has no effect
    return section


def build(section):
    return Gpt(section) if section["type"] == "gpt" else Encoder(section)


def loss_of(model, tokens, targets, label_smoothing=0.0):
    """Mean over valid targets, in fp32 also under autocast."""
    logits = model(tokens)
    flat = logits.float().reshape(-1, logits.shape[-1])
    return F.cross_entropy(flat, targets.reshape(-1), label_smoothing=label_smoothing)
