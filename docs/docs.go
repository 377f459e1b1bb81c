// Package docs embeds the documents for the people who use an appliance. Those for its developers,
// and the reference of the commands, which the commands themselves contain, are not embedded.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed abi.md ams.md apply.md bmc.md generated.md glossary.md hosted-connection.md hosted.md
//go:embed lifecycle.md metrics.md mirror.md networks.md operations.md operators.md packages.md
//go:embed readings.md registry.md rehearsal.md security.md siteservices.md steps.md validations.md
//go:embed values.md
var files embed.FS

// Files returns the documents: <topic>.md.
func Files() fs.FS { return files }
