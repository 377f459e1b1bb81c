package objects

// ManifestNames are the texts of the engine and the names in a manifest, alternating.
var ManifestNames = manifestNames[:]
