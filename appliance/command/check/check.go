// Package check has the command that checks the stored data of an appliance.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/dataversion"
	"landfall/appliance/fleet"
	"landfall/appliance/integrity"
	"landfall/appliance/journal"
	"landfall/appliance/keyring"
	"landfall/appliance/process"
	"landfall/appliance/sentence"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/seal"
	"landfall/web/console"
)

type check struct {
	appliance remote.Client
	format    output.Format
	dir       string
	repair    bool
	salvage   string
}

// New returns landfall check.
func New() *cobra.Command {
	c := new(check)
	cmd := &cobra.Command{
		Use:   "check [--data-dir DIR]",
		Short: "Check whether stored data is damaged, and repair it",
		Long: "Read every page, row, reference and file of the stored data, and say what is damaged and what it " +
			"means. The exit\ncode is 0 if everything is whole, and 1 if something is damaged. Without --data-dir, " +
			"the running appliance checks\nitself; with it, the data directory of a stopped appliance is checked.\n\n" +
			"--repair removes what can't be read, keeps its bytes, and derives indexes again. --salvage copies what " +
			"can be read\nof a directory that an appliance refuses to start with; the list names what is lost.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := c.run(cmd.Context())
			if err != nil {
				return err
			}
			return c.write(cmd.OutOrStdout(), report)
		},
	}
	c.appliance.AddFlags(cmd.Flags())
	c.format.AddFlag(cmd)
	cmd.Flags().StringVar(&c.dir, "data-dir", "", "data directory of a stopped appliance")
	cmd.Flags().BoolVar(&c.repair, "repair", false, "remove what can't be read and derive what can be derived")
	cmd.Flags().StringVar(&c.salvage, "salvage", "", "new directory for what can be read of --data-dir")
	return cmd
}

func (c *check) run(ctx context.Context) (*integrity.Report, error) {
	switch {
	case c.salvage != "" && c.dir == "":
		return nil, outcome.Usagef("--salvage needs --data-dir, the directory of a stopped appliance")
	case c.dir != "" && !exists(c.dir):
		return nil, fmt.Errorf("there is no data in %s; name another data directory", c.dir)
	case c.salvage != "":
		return salvage(ctx, c.dir, c.salvage)
	case c.dir != "" && c.repair:
		if err := repair(ctx, c.dir, false); err != nil {
			return nil, err
		}
		return offline(ctx, c.dir)
	case c.dir != "":
		return offline(ctx, c.dir)
	}
	method, path := http.MethodGet, console.IntegrityRoute
	if c.repair {
		method, path = http.MethodPost, console.IntegrityRoute+"/repairs"
	}
	report := new(integrity.Report)
	return report, c.appliance.Call(ctx, method, path, nil, report)
}

// exists reports whether a directory has data of an appliance, of which a part may be lost.
func exists(dir string) bool {
	for _, name := range []string{store.FileName, keyring.FileName} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

func keys(dir string) (*seal.Ring, error) {
	return keyring.New(dir, keyring.FromEnvironment()).Open(true)
}

// offline checks a data directory without a change.
func offline(ctx context.Context, dir string) (*integrity.Report, error) {
	var ring *seal.Ring
	var keyErr error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	found, err := store.CheckDir(ctx, dir, func() (*seal.Ring, error) {
		if ring, keyErr = keys(dir); errors.Is(keyErr, keyring.ErrNoKey) {
			stop() // a person names the key first: nothing is damaged
		}
		return ring, keyErr
	})
	if errors.Is(keyErr, keyring.ErrNoKey) {
		return nil, keyErr
	}
	if err != nil {
		return nil, err
	}
	if ring != nil {
		if err := sitekey.Check(dir, ring); err != nil {
			found.Problems = append(found.Problems, store.Problem{Kind: store.ProblemFile, Where: sitekey.FileName,
				Reason: err.Error()})
		}
	}
	return integrity.Explain(found), nil
}

// repair repairs a data directory. salvaging accepts that most rows are lost.
func repair(ctx context.Context, dir string, salvaging bool) error {
	if err := errors.Join(dataversion.Check(dir), fleet.CheckAlone(dir)); err != nil {
		return err
	}
	options := keyring.FromEnvironment()
	if err := process.BecomeOwner(dir, options.Files()...); err != nil {
		return err
	}
	ring := keyring.New(dir, options)
	db, err := store.Open(ctx, dir, store.Options{Keys: ring.Open, Versioned: "kubernetes", Salvage: salvaging,
		History: journal.History(1<<40, 1<<40)})
	if err != nil {
		return err
	}
	return errors.Join(integrity.Repair(ctx, db, clockwork.NewRealClock()), db.Close())
}

func (c *check) write(out io.Writer, report *integrity.Report) error {
	if err := c.print(out, report); err != nil || report.Whole {
		return err
	}
	return &outcome.CodeError{Code: outcome.Failure}
}

var problems = output.Kind[integrity.Problem]{
	Name: "problem", NameOf: func(p *integrity.Problem) string { return p.Where },
	Columns: []output.Column[integrity.Problem]{
		{Title: "KIND", Value: func(p *integrity.Problem) string { return p.Kind }},
		{Title: "WHERE", Value: func(p *integrity.Problem) string { return p.Where }},
		{Title: "DAMAGE", Value: func(p *integrity.Problem) string { return p.Reason }},
		{Title: "MEANING", Value: func(p *integrity.Problem) string { return p.Meaning }},
		{Title: "REMEDY", Wide: true, Value: func(p *integrity.Problem) string { return p.Remedy }},
	},
}

func (c *check) print(out io.Writer, report *integrity.Report) error {
	if !c.format.Tabular() && !c.format.Names() {
		text, err := json.Marshal(report)
		if err != nil {
			return err
		}
		return c.format.Value(out, text)
	}
	read := fmt.Sprintf("%s, %s and %s were read", sentence.Count(int(report.Pages), "page"),
		sentence.Count(int(report.Rows), "row"), sentence.Count(report.Files, "file"))
	if report.Elsewhere > 0 {
		read += "; only on other members: " + sentence.Count(report.Elsewhere, "file")
	}
	if report.Whole {
		if c.format.Names() {
			return nil
		}
		_, err := fmt.Fprintf(out, "Everything is whole: %s.\n", read)
		return err
	}
	list, err := json.Marshal(report.Problems)
	if err != nil {
		return err
	}
	if err := problems.List(out, &c.format, list); err != nil || c.format.Names() {
		return err
	}
	fmt.Fprintf(out, "\n%s; %s.\n", sentence.Count(len(report.Problems), "problem"), read)
	for _, remedy := range remedies(report.Problems) {
		fmt.Fprintf(out, "  %s\n", remedy)
	}
	return nil
}

// remedies returns each remedy once.
func remedies(problems []integrity.Problem) (all []string) {
	seen := make(map[string]bool)
	for _, p := range problems {
		if !seen[p.Remedy] {
			seen[p.Remedy] = true
			all = append(all, p.Kind+": "+p.Remedy)
		}
	}
	return all
}
