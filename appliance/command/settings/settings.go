// Package settings has the commands that show and change the settings of a site and its webhooks,
// and show what it needs before its first installation.
package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/settings"
	"landfall/web/console"
)

// Commands returns landfall settings and landfall setup. group adds subcommands to a command.
func Commands(group func(parent *cobra.Command, commands ...*cobra.Command)) []*cobra.Command {
	releases := &cobra.Command{Use: "release", Short: "Add and remove releases"}
	group(releases, newAdd(), newRemove())
	all := &cobra.Command{Use: "settings", Short: "Show and change the settings of the site"}
	group(all, newShow(), newSet(), releases, newWebhooks(group))
	return []*cobra.Command{all, newSetup()}
}

const (
	waitForChecks = 10 * time.Second
	askAgain      = 300 * time.Millisecond
)

func newShow() *cobra.Command {
	appliance, form := new(remote.Client), new(output.Format)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the settings of the site, without secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := new(settings.Settings)
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.SettingsRoute, nil, shown); err != nil {
				return err
			}
			return form.Document(cmd.OutOrStdout(), "settings", "site", shown, func(out io.Writer) error {
				return write(out, shown)
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	form.AddFlag(cmd)
	return cmd
}

// fixed marks a setting that only the configuration file can change.
func fixed(is bool) string {
	if is {
		return " (configuration file)"
	}
	return ""
}

func write(out io.Writer, shown *settings.Settings) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	restart := ""
	if shown.URL.RestartNeeded {
		restart = " (after a restart)"
	}
	fmt.Fprintf(table, "URL for hosts\t%s%s\n", orNone(shown.URL.Value), restart+fixed(shown.URL.Fixed))
	secret := "none"
	if shown.PullSecret.Set {
		secret = "for " + orNone(strings.Join(shown.PullSecret.Registries, ", "))
	}
	fmt.Fprintf(table, "pull secret\t%s%s\n", secret, fixed(shown.PullSecret.Fixed))
	for i, key := range strings.Split(orNone(shown.SSHPublicKey.Value), "\n") {
		label := ""
		if i == 0 {
			label = "SSH key"
		}
		fmt.Fprintf(table, "%s\t%s\n", label, key)
	}
	fmt.Fprintf(table, "time servers\t%s%s\n", orNone(strings.Join(shown.NTPSources.Value, ", ")),
		fixed(shown.NTPSources.Fixed))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if shown.URL.LocalListener != "" {
		fmt.Fprintf(out, "The appliance listens on %s, which only this machine reaches. %s\n\n",
			shown.URL.LocalListener, shown.URL.Advice)
	}
	if len(shown.Releases) == 0 {
		_, err := fmt.Fprintln(out, "No releases. Add one with landfall settings release add PULLSPEC.")
		return err
	}
	return writeReleases(out, shown.Releases)
}

func writeReleases(out io.Writer, releases []settings.Release) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VERSION\tARCHITECTURE\tDEFAULT\tSOURCE\tSTATE\tPULL SPEC")
	for _, release := range releases {
		marked := ""
		if release.Default {
			marked = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", release.OpenshiftVersion, release.CPUArchitecture, marked,
			release.Source, release.State, release.URL)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, release := range releases {
		if release.Message != "" {
			fmt.Fprintf(out, "\n%s (%s): %s\n", release.OpenshiftVersion, release.CPUArchitecture, release.Message)
		}
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func newSet() *cobra.Command {
	appliance, form := new(remote.Client), new(output.Format)
	var secretFile, keyFile, address string
	var sources []string
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change settings of the site",
		Long: "Change settings of the site. Settings without a flag keep their values. An empty value removes a " +
			"setting:\nlandfall settings set --ntp ''. A file named - is standard input.",
		Example: "  landfall settings set --pull-secret-file pull-secret.json --ssh-key-file id.pub\n" +
			"  landfall settings set --ntp 192.0.2.1 --ntp 192.0.2.2 --url-for-hosts https://192.0.2.10:8090",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			var wanted settings.Change
			var err error
			if given("pull-secret-file") {
				if wanted.PullSecret, err = readFile(cmd, secretFile); err != nil {
					return err
				}
			}
			if given("ssh-key-file") {
				if wanted.SSHPublicKey, err = readFile(cmd, keyFile); err != nil {
					return err
				}
			}
			if given("ntp") {
				list := append([]string{}, sources...)
				wanted.NTPSources = &list
			}
			if given("url-for-hosts") {
				wanted.URL = &address
			}
			if wanted == (settings.Change{}) {
				return errors.New("no setting is given; name at least one of --pull-secret-file, --ssh-key-file, " +
					"--ntp and --url-for-hosts")
			}
			shown := new(settings.Settings)
			if err := appliance.Call(cmd.Context(), http.MethodPatch, console.SettingsRoute, wanted,
				shown); err != nil {
				return err
			}
			return form.Document(cmd.OutOrStdout(), "settings", "site", shown, func(out io.Writer) error {
				return write(out, shown)
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	form.AddFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&secretFile, "pull-secret-file", "", "file with the pull secret for clusters without their own")
	flags.StringVar(&keyFile, "ssh-key-file", "", "file with the public SSH keys for clusters without their own")
	flags.StringSliceVar(&sources, "ntp", nil, "time server; may be repeated")
	flags.StringVar(&address, "url-for-hosts", "", "URL by which hosts reach the appliance; takes effect at its "+
		"next start")
	return cmd
}

// readFile reads a file. An empty name is an empty content.
func readFile(cmd *cobra.Command, path string) (*string, error) {
	var content []byte
	var err error
	switch path {
	case "":
	case "-":
		content, err = io.ReadAll(cmd.InOrStdin())
	default:
		content, err = os.ReadFile(path)
	}
	text := string(content)
	return &text, err
}

func newAdd() *cobra.Command {
	appliance, form := new(remote.Client), new(output.Format)
	var wanted settings.NewRelease
	cmd := &cobra.Command{
		Use:   "add PULLSPEC",
		Short: "Add a release that clusters can have",
		Long: "Add a release that clusters can have. The appliance reads its version and architecture from the " +
			"payload, " +
			"through\nthe mirror. This also allows the release: its openshift-install will run on the appliance's " +
			"machine.",
		Example: "  landfall settings release add quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			wanted.Release = arguments[0]
			added := new(settings.Release)
			if err := appliance.Call(cmd.Context(), http.MethodPost, console.SettingsRoute+"/releases", wanted,
				added); err != nil {
				return err
			}
			return form.Document(cmd.OutOrStdout(), "settings", "site", added, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%s (%s): added\n", added.OpenshiftVersion, added.CPUArchitecture)
				return err
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	form.AddFlag(cmd)
	cmd.Flags().BoolVar(&wanted.Default, "default", false, "use the release for clusters that name no version")
	return cmd
}

func newRemove() *cobra.Command {
	appliance := new(remote.Client)
	var architecture string
	cmd := &cobra.Command{
		Use:   "remove VERSION",
		Short: "Remove a release that was added",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return remove(cmd.Context(), appliance, arguments[0], architecture, cmd.OutOrStdout())
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&architecture, "architecture", "", "architecture of the release, if the site has several")
	return cmd
}

func remove(ctx context.Context, appliance *remote.Client, version, architecture string, out io.Writer) error {
	if architecture == "" {
		shown := new(settings.Settings)
		if err := appliance.Call(ctx, http.MethodGet, console.SettingsRoute, nil, shown); err != nil {
			return err
		}
		for _, release := range shown.Releases {
			switch {
			case release.OpenshiftVersion != version:
			case architecture != "":
				return fmt.Errorf("the site has release %s for %s and %s; name one with --architecture", version,
					architecture, release.CPUArchitecture)
			default:
				architecture = release.CPUArchitecture
			}
		}
		if architecture == "" {
			return fmt.Errorf("the site has no release %s; landfall settings show lists the releases", version)
		}
	}
	if err := appliance.Call(ctx, http.MethodDelete, console.SettingsRoute+"/releases/"+url.PathEscape(version)+"/"+
		url.PathEscape(architecture), nil, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s (%s): removed\n", version, architecture)
	return err
}

func newSetup() *cobra.Command {
	appliance, form := new(remote.Client), new(output.Format)
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Show what the site needs before its first installation",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			setup, err := checked(cmd.Context(), appliance)
			if err != nil {
				return err
			}
			return form.Document(cmd.OutOrStdout(), "settings", "site", setup, func(out io.Writer) error {
				return writeSetup(out, setup)
			})
		},
	}
	appliance.AddFlags(cmd.Flags())
	form.AddFlag(cmd)
	return cmd
}

// checked returns what the site needs. It waits some time for the checks that the request starts.
func checked(ctx context.Context, appliance *remote.Client) (*settings.Setup, error) {
	ctx, cancel := context.WithTimeout(ctx, waitForChecks)
	defer cancel()
	last := new(settings.Setup)
	for {
		setup := new(settings.Setup)
		err := appliance.Call(ctx, http.MethodGet, console.SetupRoute, nil, setup)
		if ctx.Err() != nil && last.Lines != nil {
			return last, nil
		}
		if err != nil || !slices.ContainsFunc(setup.Lines, func(l settings.Line) bool {
			return l.State == settings.StateChecking
		}) {
			return setup, err
		}
		last = setup
		select {
		case <-ctx.Done():
			return last, nil
		case <-time.After(askAgain):
		}
	}
}

func writeSetup(out io.Writer, setup *settings.Setup) error {
	for _, line := range setup.Lines {
		fmt.Fprintf(out, "%-9s %s\n", line.State.Word(), line.Result)
		if line.Advice != "" {
			fmt.Fprintf(out, "%-9s %s\n", "", line.Advice)
		}
	}
	if setup.Complete {
		_, err := fmt.Fprintln(out, "\nThe site is ready for installations.")
		return err
	}
	_, err := fmt.Fprintln(out, "\nThe site is not ready yet.")
	return err
}
