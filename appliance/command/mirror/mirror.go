// Package mirror has the commands on the site's mirror: its rules, and what it holds.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/release"
	"landfall/appliance/command/remote"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "Import, show and explain the site's mirror rules",
	}
	cmd.AddCommand(newImport(), newShow(), newExplain(), newRemove(), newLater(),
		newProve(), newProofs(), newAcceptGaps())
	return cmd
}

// Level selects the level of mirror rules by flags.
type Level struct{ mirror.Level }

func (l *Level) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.Cluster, "cluster", "",
		"ID or name of the cluster to which the rules apply; default: all clusters")
	flags.StringVar(&l.InfraEnv, "infra-env", "",
		"ID of the infra-env to whose discovery image the rules apply")
}

// query returns the level and other parameters as a query of the API.
func (l *Level) query(others ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(others); i += 2 {
		values.Set(others[i], others[i+1])
	}
	if l.Cluster != "" {
		values.Set("cluster_id", l.Cluster)
	}
	if l.InfraEnv != "" {
		values.Set("infra_env_id", l.InfraEnv)
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

func newImport() *cobra.Command {
	appliance := action.New()
	level := &Level{}
	var name string
	var allow bool
	cmd := &cobra.Command{
		Use:   "import PATH",
		Short: "Import mirror rules into a running appliance",
		Long: "Import mirror rules into a running appliance: a registries.conf (with its drop-ins, as a directory), " +
			"files with mirror sets, a\nworkspace or results directory of oc-mirror (version 1 or 2), an archive of " +
			"these (tar, tar.gz, zip), a list of\nsources and mirrors, or CA certificates. Catalogs and release " +
			"signatures are imported with the rules.\nAn import replaces an earlier import of the same name. " +
			"Imports take precedence over the configuration, imports for an\ninfra-env over imports for " +
			"the appliance, and imports for a cluster over both.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if name == "" {
				path, err := filepath.Abs(arguments[0])
				if err != nil {
					return err
				}
				name = filepath.Base(path)
			}
			if err := appliance.Resolve(cmd.Context(), &level.Cluster); err != nil {
				return err
			}
			model, err := Import(cmd.Context(), &appliance.Client, level, name, arguments[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if allow {
				if err := release.AllowSigned(cmd.Context(), &appliance.Client, arguments[0],
					cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(cmd.OutOrStdout(), "mirror", "site", model, nil)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: imported; the appliance now has %s, %s, %s and %s\n", name,
				sentence.Count(len(model.Rules), "rule"), sentence.Count(len(model.Authorities), "CA"),
				sentence.Count(len(model.Catalogs), "catalog"), sentence.Count(len(model.Signatures), "signature"))
			return writeHoles(cmd.OutOrStdout(), model.Holes)
		},
	}
	appliance.Formerly(cmd)
	level.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&name, "name", "", "name of the import; default: the name of the file or directory")
	cmd.Flags().BoolVar(&allow, "allow-releases", false,
		"also allow the releases whose signatures are in the import, without checking the signatures")
	return cmd
}

// Import imports mirror rules into an appliance. It reads the mirror's files locally, so that a
// large workspace is not uploaded, and prints the ignored files.
func Import(ctx context.Context, c *remote.Client, level *Level, name, path string,
	errOut io.Writer) (*site.Model, error) {
	got, err := mirror.CollectPath(path)
	if err != nil {
		return nil, err
	}
	for _, ignored := range got.Ignored {
		fmt.Fprintf(errOut, "landfall: %s is ignored: %s\n", ignored.Name, ignored.Reason)
	}
	sent := make([]remote.File, len(got.Files))
	for i, file := range got.Files {
		sent[i] = remote.File{Name: file.Name, Data: file.Data}
	}
	model := new(site.Model)
	return model, c.SendFiles(ctx, console.MirrorRoute+level.query("name", name), sent, model)
}

func newShow() *cobra.Command {
	appliance := action.New()
	level := &Level{}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show a running appliance's mirror rules and their problems",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			model := new(site.Model)
			if err := appliance.Resolve(cmd.Context(), &level.Cluster); err != nil {
				return err
			}
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.MirrorRoute+level.query(),
				nil, model); err != nil {
				return err
			}
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(cmd.OutOrStdout(), "mirror", "site", model, nil)
			}
			return writeMirrorModel(cmd.OutOrStdout(), model)
		},
	}
	appliance.Formerly(cmd)
	level.addFlags(cmd.Flags())
	return cmd
}

func writeMirrorModel(out io.Writer, model *site.Model) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SOURCE\tMIRRORS, IN ORDER\tFOR\tSOURCE TRIED\tFROM")
	for _, rule := range model.Rules {
		tried := "last"
		if rule.Blocked {
			tried = "never"
		}
		var locations, uses []string
		for _, m := range rule.Mirrors {
			locations = append(locations, m.Location)
			uses = append(uses, m.For)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", rule.Prefix, output.OrDash(strings.Join(locations, ", ")),
			output.OrDash(strings.Join(uses, ", ")), tried, rule.Origin)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, imported := range model.Imports {
		fmt.Fprintf(out, "import %s for the %s, from %s: %s\n", imported.Name, imported.Level,
			output.Time(imported.Imported), sentence.Count(len(imported.Files), "file"))
	}
	for _, catalog := range model.Catalogs {
		fmt.Fprintf(out, "catalog %s: %s\n", catalog.Name, catalog.Image)
	}
	for _, digest := range model.Signatures {
		fmt.Fprintf(out, "signature of release %s\n", digest)
	}
	for _, authority := range model.Authorities {
		fmt.Fprintf(out, "CA %s, valid until %s\n", authority.Subject, authority.NotAfter.Format(time.DateOnly))
	}
	if model.Problem != "" {
		fmt.Fprintf(out, "PROBLEM %s\n", model.Problem)
	}
	return writeHoles(out, model.Holes)
}

func writeHoles(out io.Writer, holes []mirror.Hole) error {
	var errs []error
	for _, grave := range []bool{true, false} {
		for _, hole := range holes {
			word := "note"
			if hole.Grave {
				word = "HOLE"
			}
			if hole.Grave == grave {
				_, err := fmt.Fprintf(out, "%s %s\n", word, hole.Text)
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func newExplain() *cobra.Command {
	appliance := action.New()
	level := &Level{}
	cmd := &cobra.Command{
		Use:   "explain IMAGE",
		Short: "Show where nodes pull an image from, and by which rule",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			explained := new(mirror.Explanation)
			if err := appliance.Resolve(cmd.Context(), &level.Cluster); err != nil {
				return err
			}
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.MirrorRoute+"/explain"+
				level.query("image", arguments[0]), nil, explained); err != nil {
				return err
			}
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(cmd.OutOrStdout(), "mirror", "site", explained, nil)
			}
			return writeExplanation(cmd.OutOrStdout(), explained)
		},
	}
	appliance.Formerly(cmd)
	level.addFlags(cmd.Flags())
	return cmd
}

func writeExplanation(out io.Writer, explained *mirror.Explanation) error {
	_, err := fmt.Fprintln(out, explained.Image)
	for i, step := range explained.Steps {
		order := "first"
		if i > 0 {
			order = "then"
		}
		_, stepErr := fmt.Fprintf(out, "  %s: %s (%s)\n", order, step.Image, step.Rule)
		err = errors.Join(err, stepErr)
	}
	for _, note := range explained.Notes {
		_, noteErr := fmt.Fprintf(out, "  %s\n", note)
		err = errors.Join(err, noteErr)
	}
	return err
}

func newLater() *cobra.Command {
	appliance := action.New()
	var cluster string
	cmd := &cobra.Command{
		Use:   "later --cluster ID",
		Short: "Write the manifests of a cluster's mirror that can be applied only to the running cluster",
		Long: "Write the resources of a cluster's mirror that cannot be manifests of the installation, as YAML for " +
			"oc apply -f -:\nUpdateServices, and ClusterCatalogs for versions in which this kind does not exist " +
			"during the installation.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("give --cluster")
			}
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			var documents []byte
			path := strings.Replace(console.MirrorLaterRoute, ":id", url.PathEscape(cluster), 1)
			if err := appliance.Call(cmd.Context(), http.MethodGet, path, nil, &documents); err != nil {
				return err
			}
			_, err := cmd.OutOrStdout().Write(documents)
			return err
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID or name of the cluster")
	return cmd
}

func newRemove() *cobra.Command {
	appliance := action.New()
	level := &Level{}
	cmd := appliance.Removing(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an import of mirror rules from a running appliance",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := appliance.Resolve(cmd.Context(), &level.Cluster); err != nil {
				return err
			}
			if err := appliance.Confirm(cmd, arguments[0], "The rules, authorities and credentials of the import "+
				arguments[0]+" are removed from the appliance."); err != nil {
				return err
			}
			_, err := appliance.Send(cmd, http.MethodDelete, console.MirrorRoute+"/imports/"+
				url.PathEscape(arguments[0])+level.query(), nil)
			return err
		},
	})
	level.addFlags(cmd.Flags())
	return cmd
}
