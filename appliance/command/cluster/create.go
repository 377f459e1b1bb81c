package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/command/version"
)

// properties are the flags of create and set.
type properties struct {
	domain, pullSecretFile, sshKeyFile, networkType string
	controlPlanes                                   int
	apiVIPs, ingressVIPs, machineNetworks           []string
	ntp                                             []string
	operators                                       []string
	userManaged                                     bool
}

func (p *properties) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.domain, "base-domain", "", "domain of the cluster: its API is api.NAME.DOMAIN")
	flags.IntVar(&p.controlPlanes, "control-planes", 0, "number of control-plane hosts: 1 (single node), "+
		"2 (with an arbiter or with fencing), or 3 to 5")
	flags.StringVar(&p.pullSecretFile, "pull-secret-file", "", "file with the pull secret")
	flags.StringVar(&p.sshKeyFile, "ssh-key-file", "", "file with the public SSH key for the nodes")
	flags.StringSliceVar(&p.apiVIPs, "api-vip", nil, "virtual IP address of the API; one for each address family")
	flags.StringSliceVar(&p.ingressVIPs, "ingress-vip", nil,
		"virtual IP address of the ingress; one for each address family")
	flags.StringSliceVar(&p.machineNetworks, "machine-network", nil, "network of the hosts, such as 192.0.2.0/24")
	flags.StringVar(&p.networkType, "network-type", "", "OVNKubernetes, or another network of the release")
	flags.StringSliceVar(&p.ntp, "ntp", nil, "time servers in addition to those of the hosts")
	flags.StringSliceVar(&p.operators, "operators", nil, "operators to install with the cluster, such as odf,cnv")
	flags.BoolVar(&p.userManaged, "user-managed-networking", false, "use your own load balancer and DNS")
}

// fill puts the flags that were given into a request.
func (p *properties) fill(cmd *cobra.Command, body action.Object) error {
	flags, stdin := cmd.Flags(), cmd.InOrStdin()
	given := map[string]func(){
		"base-domain":             func() { body["base_dns_domain"] = p.domain },
		"control-planes":          func() { body["control_plane_count"] = p.controlPlanes },
		"network-type":            func() { body["network_type"] = p.networkType },
		"user-managed-networking": func() { body["user_managed_networking"] = p.userManaged },
		"api-vip":                 func() { body["api_vips"] = each("ip", p.apiVIPs) },
		"ingress-vip":             func() { body["ingress_vips"] = each("ip", p.ingressVIPs) },
		"machine-network":         func() { body["machine_networks"] = each("cidr", p.machineNetworks) },
		"operators":               func() { body["olm_operators"] = each("name", p.operators) },
		"ntp":                     func() { body["additional_ntp_source"] = action.Join(p.ntp) },
	}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if flags.Changed(flag) {
			given[flag]()
		}
	}
	if err := action.Secret(stdin, body, "pull_secret", "pull-secret-file", p.pullSecretFile); err != nil {
		return err
	}
	return action.Secret(stdin, body, "ssh_public_key", "ssh-key-file", p.sshKeyFile)
}

// each returns objects with one field.
func each(field string, values []string) []action.Object {
	objects := []action.Object{}
	for _, value := range values {
		objects = append(objects, action.Object{field: value})
	}
	return objects
}

func newCreate() *cobra.Command {
	a := action.New()
	p := new(properties)
	var release, architecture, file string
	cmd := a.Changing(&cobra.Command{
		Use:   "create [NAME] [FIELD=VALUE…]",
		Short: "Create a cluster",
		Long: "Create a cluster, by flags, by fields of the API (FIELD=VALUE), or by a file.\n\n" +
			"A file has the fields of the API in YAML or JSON. It may have infra_env (or the list infra_envs), " +
			"manifests, hosts and\ninstall_config_overrides, too. Flags and fields replace those of the file; " +
			"landfall cluster export writes such a file:\n\n" +
			"  name: east\n" +
			"  base_dns_domain: example.com\n" +
			"  openshift_version: \"4.20\"\n" +
			"  control_plane_count: 1\n" +
			"  infra_env:\n" +
			"    image_type: minimal-iso\n" +
			"  manifests: [{folder: openshift, file_name: 50-site.yaml, content: \"…\"}]\n" +
			"  hosts: [{macs: [\"52:54:00:00:00:01\"], host_name: master-0, host_role: master}]\n\n" +
			"Without a version, the cluster has the default release. Without a pull secret and SSH key, it has those " +
			"of the site.",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body, extra := action.Object{}, action.Object{}
			if file != "" {
				var err error
				body, extra, err = action.ReadFile[models.ClusterCreateParams](cmd, file, partNames()...)
				if err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("version") {
				body["openshift_version"] = release
			}
			if architecture != "" {
				body["cpu_architecture"] = architecture
			}
			arguments = action.Name(body, arguments)
			if err := p.fill(cmd, body); err != nil {
				return err
			}
			if err := action.Fields[models.ClusterCreateParams](body, arguments); err != nil {
				return err
			}
			return create(cmd, a, body, extra)
		},
	})
	p.addFlags(cmd)
	a.Format.AddFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "file that describes the cluster; - is standard input")
	flags.StringVar(&release, "version", "", "version, or its beginning, of a release of the appliance: 4.20")
	flags.StringVar(&architecture, "architecture", "", "architecture of the hosts; default: x86_64")
	output.Choices(cmd, "architecture", "x86_64", "arm64", "ppc64le", "s390x")
	return cmd
}

func create(cmd *cobra.Command, a *action.Action, body, extra action.Object) error {
	name, _ := body["name"].(string)
	if name == "" {
		return outcome.Usagef("the name of the cluster is missing")
	}
	described, err := partsOf(extra)
	if err != nil {
		return err
	}
	known, err := a.ClusterNames(cmd.Context())
	if err != nil {
		return err
	}
	if slices.Contains(known, name) {
		return fmt.Errorf("a cluster with the name %s exists; choose another name, or remove it with landfall cluster "+
			"delete %s", name, name)
	}
	wanted, _ := body["openshift_version"].(string)
	if body["openshift_version"], err = version.Find(cmd.Context(), &a.Client, wanted); err != nil {
		return err
	}
	action.WithPullSecret(body)
	answer, err := a.Send(cmd, http.MethodPost, clustersPath, body)
	if err != nil {
		return err
	}
	if a.DryRun {
		a.Later = true
		return described.create(cmd, a, body, "ID") // in place of the ID that the cluster will have
	}
	var created models.Cluster
	if err := json.Unmarshal(answer, &created); err != nil {
		return fmt.Errorf("the response does not match the API: %w", err)
	}
	if err := action.Answer(cmd, a, kind(), answer, fmt.Sprintf("The cluster %s was created with OpenShift %s (ID %s).",
		name, created.OpenshiftVersion, *created.ID)); err != nil {
		return err
	}
	if !a.Format.Tabular() {
		cmd.SetOut(cmd.ErrOrStderr()) // the messages about the parts are no part of the answer
	}
	return described.create(cmd, a, body, created.ID.String())
}

func newSet() *cobra.Command {
	a := action.New()
	p := new(properties)
	cmd := a.Changing(&cobra.Command{
		Use:   "set NAME [FIELD=VALUE…]",
		Short: "Change a cluster before its installation",
		Long: "Change a cluster before its installation, by flags or by fields of the API:\n" +
			"  landfall cluster set east --api-vip 192.0.2.4 --ingress-vip 192.0.2.5\n" +
			"  landfall cluster set east network_type=OVNKubernetes 'machine_networks=[{cidr: 192.0.2.0/24}]'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{}
			if err := p.fill(cmd, body); err != nil {
				return err
			}
			if err := action.Fields[models.V2ClusterUpdateParams](body, arguments[1:]); err != nil {
				return err
			}
			if len(body) == 0 {
				return outcome.Usagef("there is nothing to change; give a flag or FIELD=VALUE")
			}
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodPatch, remote.ClusterPath(id), body); err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The cluster %s was changed.\n", arguments[0])
			return err
		},
	})
	p.addFlags(cmd)
	return cmd
}
