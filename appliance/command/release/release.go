// Package release has the commands that show and change the releases that a site allows.
package release

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/mirror"
	"landfall/appliance/release/trust"
	"landfall/web/console"
)

// Commands returns the subcommands of landfall release.
func Commands() []*cobra.Command { return []*cobra.Command{newList(), newAllow(), newForget()} }

func newList() *cobra.Command {
	appliance, format := new(remote.Client), new(output.Format)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the releases that may be used, and the keys that may sign releases",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := new(trust.List)
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.ReleasesRoute, nil, list); err != nil {
				return err
			}
			return format.Document(cmd.OutOrStdout(), "releases", "site", list, func(io.Writer) error {
				return write(cmd, list)
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	format.AddFlag(cmd)
	format.AddFormerFlag(cmd)
	return cmd
}

func write(cmd *cobra.Command, list *trust.List) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DIGEST\tALLOWED BY\tSINCE\tPULL SPEC")
	for _, release := range list.Releases {
		by, since := "configuration", "-"
		switch {
		case release.Source == trust.SourceAdministrator:
			by, since = release.By, output.Time(release.At)
		case release.Source == trust.SourceMedium:
			by, since = fmt.Sprintf("%s with %s", release.By, release.Path), output.Time(release.At)
		case release.Source == trust.SourceSigned:
			by = "signature of " + release.SignedBy.Owner
		}
		if release.Source != trust.SourceSigned && release.SignedBy != nil {
			by += " and signature of " + release.SignedBy.Owner
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", orDash(release.Digest), by, since, orDash(release.PullSpec))
	}
	for _, key := range list.SigningKeys {
		fmt.Fprintf(table, "any\tsignature of %s\t-\t%s\n", key.Fingerprint, key.Owner)
	}
	return table.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newAllow() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "allow DIGEST|PULLSPEC",
		Short: "Allow a release that is not in the configuration",
		Long: "Allow a release that is not in the configuration. The openshift-install of the release will run on " +
			"the appliance's machine,\nand its images on the hosts. Compare the digest with a source that you " +
			"trust. A pull spec with a tag is resolved now;\na later change of the tag has no effect.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return allow(cmd.Context(), appliance, arguments[0], cmd.OutOrStdout())
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

// AllowSigned allows the releases whose signatures are in a file or directory with mirror rules. It
// does not check the signatures.
func AllowSigned(ctx context.Context, appliance *remote.Client, path string, out io.Writer) error {
	imported, err := mirror.CollectPath(path)
	if err != nil {
		return err
	}
	rules, err := mirror.Parse(imported.Sources(path))
	if err != nil {
		return err
	}
	for _, digest := range rules.Signatures() {
		if err := allow(ctx, appliance, digest, out); err != nil {
			return err
		}
	}
	return nil
}

func allow(ctx context.Context, appliance *remote.Client, release string, out io.Writer) error {
	allowed := new(trust.Allowed)
	if err := appliance.Call(ctx, http.MethodPost, console.ReleasesRoute, console.ReleaseRequest{Release: release},
		allowed); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: allowed\n", allowed.Digest)
	return nil
}

func newForget() *cobra.Command {
	appliance := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "forget DIGEST",
		Short: "Remove the permission of landfall release allow, or of a medium of the registry",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := appliance.Call(cmd.Context(), http.MethodDelete,
				console.ReleasesRoute+"/"+url.PathEscape(arguments[0]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: no longer allowed\n", arguments[0])
			return nil
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}
