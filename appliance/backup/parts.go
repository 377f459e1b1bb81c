package backup

import (
	"os"
	"path"
	"regexp"
	"slices"
)

// part is an entry of a data directory.
type part struct {
	pattern string // of its name; see path.Match
	kind    kind
	// key says that it has keys that the appliance makes, or their certificates.
	key bool
	// left says why a backup does not contain it.
	left string
}

// kind says how a backup contains an entry.
type kind int

const (
	notSaved   kind = iota
	savedFile       // the file
	savedDir        // its small files
	savedWhole      // its files of any size
	savedRows       // the database, its contents and its keys, in their own form
)

// parts returns everything that a data directory may contain. What can't be derived is saved.
func parts() []part {
	return []part{
		{pattern: "landfall.db", kind: savedRows},
		{pattern: "landfall-[12].wal", kind: savedRows},
		{pattern: "blobs", kind: savedRows},
		{pattern: "data.key", kind: savedRows},
		{pattern: "seal.key", kind: savedRows}, // in backups with a key
		{pattern: "site.key", kind: savedFile},
		{pattern: "ca.crt", kind: savedFile, key: true},
		{pattern: "ca.key", kind: savedFile, key: true},
		// The agents of management clusters have its certificates.
		{pattern: "clients-ca.crt", kind: savedFile, key: true},
		{pattern: "clients-ca.key", kind: savedFile, key: true},
		{pattern: "ams.key", kind: savedFile, key: true},
		{pattern: "audit", kind: savedWhole},
		{pattern: "acme", kind: savedDir, key: true}, // the account: a CA may bind it only once
		{pattern: "os-images", kind: savedDir},

		{pattern: "seal.key.former-*", left: "it opens former backups, and must be kept apart from them"},
		{pattern: "landfall.lock", left: "it names the running process"},
		{pattern: "landfall.committed", left: "it belongs to the log of this database"},
		{pattern: "landfall.db.*", left: "a repair has set it aside"},
		{pattern: "landfall-[12].wal.*", left: "a repair has set it aside"},
		{pattern: "damage.jsonl", left: "damaged rows are not part of a backup"},
		{pattern: "scrub.json", left: "the next check writes it"},
		{pattern: "version.json", left: "the database has the version"},
		{pattern: "setup-code", left: "a start without an administrator writes it"},
		{pattern: "installers", left: "they are extracted from the mirror again"},
		{pattern: "registry", left: "images are too large; they are imported or pushed again"},
		{pattern: "rehearsals", left: "rehearsals end with the process"},
		{pattern: "backups", left: "they are backups themselves"},
		{pattern: "restored.json*", left: "a restore writes it"},
		{pattern: "replica-id", left: "a restored directory is another appliance"},
		{pattern: "fleet.json", left: "a restored directory is a single machine"},
		{pattern: "incoming*", left: "it is a snapshot of another member of a fleet, which arrives"},
		{pattern: ".replica-*", left: "they are temporary"},
	}
}

// KeyFiles returns the names below a data directory of the files with keys that the appliance makes
// while it runs, and with their certificates. Some may be missing.
func KeyFiles(dir string) ([]string, error) {
	return fileNames(dir, func(p part) bool { return p.key })
}

// temporary is the end of the name of a file that is being written; see durable.WriteFile.
var temporary = regexp.MustCompile(`\.[0-9]+$`)

// Unknown returns the names in a data directory of which this package does not know whether a
// backup must contain them.
func Unknown(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		known := slices.ContainsFunc(parts(), func(p part) bool {
			for _, name := range []string{entry.Name(), temporary.ReplaceAllString(entry.Name(), "")} {
				if matches, err := path.Match(p.pattern, name); err == nil && matches {
					return true
				}
			}
			return false
		})
		if !known {
			names = append(names, entry.Name())
		}
	}
	return names, err
}
