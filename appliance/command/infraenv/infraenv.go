// Package infraenv has the commands on infra-envs: the descriptions of discovery images, whose
// hosts belong to them.
package infraenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/command/version"
)

const path = remote.APIPath + "/infra-envs"

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "infra-env",
		Aliases: []string{"infraenv"},
		Short:   "Create, change and remove infra-envs, which describe discovery images",
		Long: "Create, change and remove infra-envs. An infra-env describes a discovery image, and has the hosts " +
			"that " +
			"booted it. It is named\nby its name or its ID. landfall image downloads its image.",
	}
	cmd.AddCommand(newCreate(), newList(), newShow(), newSet(), newDelete(), newFile())
	return cmd
}

func kind() *output.Kind[models.InfraEnv] {
	type column = output.Column[models.InfraEnv]
	return &output.Kind[models.InfraEnv]{
		Name: "infra-env", Empty: "No infra-envs. Create one with landfall infra-env create.",
		NameOf: func(e *models.InfraEnv) string { return conv.Value(e.Name) },
		Columns: []column{
			{Title: "NAME", Value: func(e *models.InfraEnv) string { return conv.Value(e.Name) }},
			{Title: "VERSION", Value: func(e *models.InfraEnv) string { return e.OpenshiftVersion }},
			{Title: "ARCHITECTURE", Value: func(e *models.InfraEnv) string { return e.CPUArchitecture }},
			{Title: "IMAGE", Value: func(e *models.InfraEnv) string { return string(conv.Value(e.Type)) }},
			{Title: "ID", Value: func(e *models.InfraEnv) string { return conv.Value((*string)(e.ID)) }},
			{Title: "CLUSTER ID", Wide: true, Value: func(e *models.InfraEnv) string { return string(e.ClusterID) }},
			{Title: "URL", Wide: true, Value: func(e *models.InfraEnv) string { return e.DownloadURL }},
		},
	}
}

func newList() *cobra.Command {
	a := action.New()
	var cluster string
	cmd := a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List infra-envs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := ""
			if cluster != "" {
				id, err := a.ClusterID(cmd.Context(), cluster)
				if err != nil {
					return err
				}
				query = "?cluster_id=" + id
			}
			return action.List(cmd, a, kind(), func() (json.RawMessage, error) {
				return a.Fetch(cmd.Context(), path+query)
			}, "infra-envs")
		},
	})
	cmd.Flags().StringVar(&cluster, "cluster", "", "only those of a cluster")
	return cmd
}

func newShow() *cobra.Command {
	a := action.New()
	return a.Reading(&cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: "Show an infra-env", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := a.InfraEnvID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			object, err := a.Fetch(cmd.Context(), remote.InfraEnvPath(id))
			if err != nil {
				return err
			}
			return kind().One(cmd.OutOrStdout(), &a.Format, object, describe)
		},
	})
}

func describe(d *output.Description, e *models.InfraEnv) {
	d.Add("Name", "%s", conv.Value(e.Name))
	d.Add("ID", "%s", conv.Value((*string)(e.ID)))
	d.Add("Cluster ID", "%s", e.ClusterID)
	d.Add("Version", "%s", e.OpenshiftVersion)
	d.Add("Architecture", "%s", e.CPUArchitecture)
	d.Add("Image", "%s", conv.Value(e.Type))
	d.Add("URL", "%s", e.DownloadURL)
	d.Add("URL ends at", "%s", output.Time(time.Time(e.ExpiresAt)))
	d.Add("SSH key", "%s", strings.TrimSpace(e.SSHAuthorizedKey))
	d.Add("Time servers", "%s", e.AdditionalNtpSources)
	if e.PullSecretSet {
		d.Add("Pull secret", "set")
	}
	if proxy := e.Proxy; proxy != nil {
		d.Add("HTTP proxy", "%s", conv.Value(proxy.HTTPProxy))
		d.Add("HTTPS proxy", "%s", conv.Value(proxy.HTTPSProxy))
		d.Add("No proxy", "%s", conv.Value(proxy.NoProxy))
	}
	if e.StaticNetworkConfig != "" {
		d.Add("Static networks", "yes; see -o yaml")
	}
}

// properties are the flags of create and set.
type properties struct {
	pullSecretFile, sshKeyFile, imageType, trustBundle, release string
	ntp                                                         []string
}

func (p *properties) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.pullSecretFile, "pull-secret-file", "", "file with the pull secret")
	flags.StringVar(&p.sshKeyFile, "ssh-key-file", "", "file with the public SSH key for discovered hosts")
	flags.StringVar(&p.imageType, "image-type", "", "full-iso, or minimal-iso")
	flags.StringVar(&p.trustBundle, "trust-bundle-file", "", "file with certificates (PEM) that the hosts trust")
	flags.StringVar(&p.release, "version", "", "version, or its beginning, of the live ISO: 4.20")
	flags.StringSliceVar(&p.ntp, "ntp", nil, "time servers in addition to those of the hosts")
	output.Choices(cmd, "image-type", "full-iso", "minimal-iso")
}

func (p *properties) fill(cmd *cobra.Command, a *action.Action, flags *pflag.FlagSet, body action.Object) error {
	if flags.Changed("image-type") {
		body["image_type"] = p.imageType
	}
	if flags.Changed("ntp") {
		body["additional_ntp_sources"] = action.Join(p.ntp)
	}
	if p.release != "" {
		found, err := version.Find(cmd.Context(), &a.Client, p.release)
		if err != nil {
			return err
		}
		body["openshift_version"] = found
	}
	for _, file := range []struct{ field, flag, name string }{
		{"pull_secret", "pull-secret-file", p.pullSecretFile},
		{"ssh_authorized_key", "ssh-key-file", p.sshKeyFile},
		{"additional_trust_bundle", "trust-bundle-file", p.trustBundle},
	} {
		if err := action.Secret(cmd.InOrStdin(), body, file.field, file.flag, file.name); err != nil {
			return err
		}
	}
	return nil
}

func newCreate() *cobra.Command {
	a := action.New()
	p := new(properties)
	var cluster, architecture, file string
	cmd := a.Changing(&cobra.Command{
		Use:   "create [NAME] [FIELD=VALUE…]",
		Short: "Create an infra-env",
		Long: "Create an infra-env, by flags, by fields of the API (FIELD=VALUE), or by a file with these fields. " +
			"With --cluster, its hosts\nbelong to the cluster, and it has the version and architecture of the " +
			"cluster. " +
			"Without a pull secret and SSH key, it has those of\nthe site.",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{}
			if file != "" {
				var err error
				if body, _, err = action.ReadFile[models.InfraEnvCreateParams](cmd, file); err != nil {
					return err
				}
			}
			if architecture != "" {
				body["cpu_architecture"] = architecture
			}
			arguments = action.Name(body, arguments)
			name, _ := body["name"].(string)
			if name == "" {
				return outcome.Usagef("the name of the infra-env is missing")
			}
			known, err := a.InfraEnvNames(cmd.Context())
			if err != nil {
				return err
			}
			if slices.Contains(known, name) {
				return fmt.Errorf("an infra-env with the name %s exists; choose another name", name)
			}
			if err := p.fill(cmd, a, cmd.Flags(), body); err != nil {
				return err
			}
			if err := action.Fields[models.InfraEnvCreateParams](body, arguments); err != nil {
				return err
			}
			if cluster != "" {
				if err := ofCluster(cmd, a, cluster, body); err != nil {
					return err
				}
			}
			action.WithPullSecret(body)
			answer, err := a.Send(cmd, http.MethodPost, path, body)
			if err != nil || a.DryRun {
				return err
			}
			var created models.InfraEnv
			if err := json.Unmarshal(answer, &created); err != nil {
				return fmt.Errorf("the response does not match the API: %w", err)
			}
			return action.Answer(cmd, a, kind(), answer, fmt.Sprintf("The infra-env %s was created (ID %s). Download "+
				"its image with landfall image download --infra-env %s.", name, *created.ID, name))
		},
	})
	a.Format.AddFlag(cmd)
	p.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "file that describes the infra-env; - is standard input")
	flags.StringVar(&cluster, "cluster", "", "cluster to which the hosts will belong")
	flags.StringVar(&architecture, "architecture", "", "architecture of the hosts; default: that of the cluster")
	output.Choices(cmd, "architecture", "x86_64", "arm64", "ppc64le", "s390x")
	return cmd
}

// ofCluster binds a new infra-env to a cluster, and takes the cluster's version and architecture
// where the request has none.
func ofCluster(cmd *cobra.Command, a *action.Action, wanted string, body action.Object) error {
	id, err := a.ClusterID(cmd.Context(), wanted)
	if err != nil {
		return err
	}
	var cluster models.Cluster
	if err := a.Call(cmd.Context(), http.MethodGet, remote.ClusterPath(id), nil, &cluster); err != nil {
		return err
	}
	body["cluster_id"] = id
	if body["openshift_version"] == nil {
		body["openshift_version"] = cluster.OpenshiftVersion
	}
	if body["cpu_architecture"] == nil && cluster.CPUArchitecture != "multi" {
		body["cpu_architecture"] = cluster.CPUArchitecture
	}
	return nil
}

func newSet() *cobra.Command {
	a := action.New()
	p := new(properties)
	cmd := a.Changing(&cobra.Command{
		Use: "set NAME [FIELD=VALUE…]", Short: "Change an infra-env, and so its image",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{}
			if err := p.fill(cmd, a, cmd.Flags(), body); err != nil {
				return err
			}
			if err := action.Fields[models.InfraEnvUpdateParams](body, arguments[1:]); err != nil {
				return err
			}
			if len(body) == 0 {
				return outcome.Usagef("there is nothing to change; give a flag or FIELD=VALUE")
			}
			id, err := a.InfraEnvID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodPatch, remote.InfraEnvPath(id), body); err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The infra-env %s was changed. Hosts must boot the new image.\n",
				arguments[0])
			return err
		},
	})
	p.addFlags(cmd)
	return cmd
}

func newDelete() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "delete NAME", Aliases: []string{"rm"}, Short: "Remove an infra-env and its hosts from the appliance",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			name := arguments[0]
			id, err := a.InfraEnvID(cmd.Context(), name)
			if err != nil {
				return err
			}
			effect := "The infra-env " + name + ", its image and the descriptions of its hosts are removed from the " +
				"appliance."
			if err := a.Confirm(cmd, name, effect); err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodDelete, remote.InfraEnvPath(id), nil); err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The infra-env %s was removed.\n", name)
			return err
		},
	})
}

func newFile() *cobra.Command {
	a := action.New()
	names := []string{"discovery.ign", "ipxe-script", "static-network-config"}
	cmd := &cobra.Command{
		Use: "file NAME FILE", Short: "Write a file of an infra-env to standard output: " + strings.Join(names, ", "),
		Args: cobra.ExactArgs(2), ValidArgs: names,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if !slices.Contains(names, arguments[1]) {
				return outcome.Usagef("an infra-env has no file %s; expected one of %s", arguments[1],
					strings.Join(names, ", "))
			}
			id, err := a.InfraEnvID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			text, err := a.Fetch(cmd.Context(), remote.InfraEnvPath(id)+"/downloads/files?file_name="+arguments[1])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	a.AddFlags(cmd.Flags())
	return cmd
}
