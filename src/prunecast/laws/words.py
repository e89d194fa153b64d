"""The parameters of the laws as people read them: a symbol and a few words each. Nothing is imported here."""

MEANING = {
    "high_error": ("ε↑", "error of the high plateau"),
    "gamma": ("γ", "slope of the power-law region"),
    "p": ("p′", "where the high plateau ends, in m*"),
    "phi": ("φ", "how depth trades against density"),
    "psi": ("ψ", "how width trades against density"),
    "nu": ("ν", "how dataset size trades against density"),
    "dip": ("A", "deepest dip below the unpruned error"),
    "dip_ratio": ("ρ", "examples a weight that halve the dip"),
}
SYMBOLS = {name: symbol for name, (symbol, _) in MEANING.items()}
