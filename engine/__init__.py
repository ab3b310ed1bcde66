"""The inference engine: checkpoints, the model, decoding. It knows no screen, colour or key.

Where to look, in the order of use:

- ``types``, ``records``, ``errors``: what crosses to the app.
- ``settings``, ``profile``, ``profile_reader``, ``own_file``: what a person says, and where.
- ``locate``, ``fitting_profile``, ``formats_by_layer``, ``notices``: which checkpoint, and what its
  files hold.
- ``fit``, ``expected``, ``offer``, ``sizes``: what a profile would need and do on this machine.
- ``machine``, ``compute_path``, ``dispatch``, ``rehearsal``, ``arithmetic``: what this machine is,
  which kernels compute on it, and the name of their bits.
- ``open``, ``load_steps``, ``graph_classes``, ``warm_up``: from a folder to an engine that answers.
- ``model``, ``text``, ``draft``, ``dflash``, ``routing``, ``sampling``, ``turn``, ``logits``: the
  layers, the words, the proposals, and a turn round by round.
- ``operations``, ``explained_model``, ``explain``, ``doctor``: what runs here, told to a person.
- ``check``, ``bench``, ``tune``, ``quality``, ``quantize``: proofs, figures, tiles and prices,
  other weights.
"""
