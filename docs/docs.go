// Package docs embeds the documents for the people who use an appliance. It lacks those for
// developers, and the reference of the commands, which the program writes from its commands.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed abi.md ams.md apply.md bmc.md fleet.md generated.md glossary.md hosted-connection.md
//go:embed hosted.md lifecycle.md metrics.md mirror.md networks.md operations.md operators.md
//go:embed packages.md readings.md registry.md rehearsal.md security.md siteservices.md steps.md
//go:embed validations.md values.md
var files embed.FS

// Files returns the documents: <topic>.md.
func Files() fs.FS { return files }
