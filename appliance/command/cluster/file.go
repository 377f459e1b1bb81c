package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
)

// Fields of a file that describe what belongs to a cluster.
const (
	infraEnvField  = "infra_env"
	infraEnvsField = "infra_envs"
	manifestsField = "manifests"
	hostsField     = "hosts"
	// overridesField has the text that the API shows: JSON.
	overridesField = "install_config_overrides"
)

func partNames() []string {
	return []string{infraEnvField, infraEnvsField, manifestsField, hostsField, overridesField}
}

// parts are what a file describes beside the cluster.
type parts struct {
	infraEnvs []action.Object
	manifests []manifest
	hosts     []hostSettings
	overrides action.Object // of the install-config
}

// manifest is an additional manifest of a cluster, with its content as text.
type manifest struct {
	Folder   string `json:"folder"`
	FileName string `json:"file_name"`
	Content  string `json:"content"`
}

// partsOf reads the parts in a file.
func partsOf(extra action.Object) (*parts, error) {
	p := new(parts)
	overrides := ""
	if _, both := extra[infraEnvsField]; both && extra[infraEnvField] != nil {
		return nil, fmt.Errorf("the file has %s and %s; write all infra-envs into %s", infraEnvField, infraEnvsField,
			infraEnvsField)
	}
	if env, ok := extra[infraEnvField]; ok {
		if env == nil {
			env = map[string]any{}
		}
		extra[infraEnvsField] = []any{env}
	}
	for field, into := range map[string]any{infraEnvsField: &p.infraEnvs, manifestsField: &p.manifests,
		hostsField: &p.hosts, overridesField: &overrides} {
		if extra[field] == nil {
			continue
		}
		text, err := yaml.Marshal(extra[field])
		if err != nil {
			return nil, fmt.Errorf("read the field %s: %w", field, err)
		}
		if err := action.Decode("the field "+field, text, into); err != nil {
			return nil, err
		}
	}
	if err := yaml.UnmarshalStrict([]byte(overrides), &p.overrides); err != nil {
		return nil, fmt.Errorf("the field %s does not contain a JSON object: %w", overridesField, err)
	}
	for i, env := range p.infraEnvs {
		if env == nil {
			p.infraEnvs[i] = action.Object{}
		}
		place := fmt.Sprintf("%s[%d]", infraEnvsField, i)
		if err := action.Check[models.InfraEnvCreateParams](place, env); err != nil {
			return nil, err
		}
	}
	for i := range p.hosts {
		if err := p.hosts[i].check(i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// create creates the parts of a cluster, given the fields of its own request.
func (p *parts) create(cmd *cobra.Command, a *action.Action, cluster action.Object, id string) error {
	out := cmd.OutOrStdout()
	for _, env := range p.infraEnvs {
		for field, from := range map[string]string{"name": "name", "pull_secret": "pull_secret",
			"ssh_authorized_key": "ssh_public_key"} {
			if env[field] == nil && cluster[from] != nil {
				env[field] = cluster[from]
			}
		}
		action.WithPullSecret(env)
		env["cluster_id"] = id
		if _, err := a.Send(cmd, http.MethodPost, remote.APIPath+"/infra-envs", env); err != nil {
			return fmt.Errorf("create the infra-env %v of the cluster: %w", env["name"], err)
		}
		if !a.DryRun {
			fmt.Fprintf(out, "Its infra-env %s was created.\n", env["name"])
		}
	}
	if len(p.overrides) > 0 {
		if err := sendOverrides(cmd, a, id, p.overrides); err != nil {
			return fmt.Errorf("override the install-config of the cluster: %w", err)
		}
	}
	for _, m := range p.manifests {
		body := action.Object{"file_name": m.FileName, "folder": m.Folder,
			"content": base64.StdEncoding.EncodeToString([]byte(m.Content))}
		if _, err := a.Send(cmd, http.MethodPost, remote.ClusterPath(id)+"/manifests", body); err != nil {
			return fmt.Errorf("add the manifest %s to the cluster: %w", m.FileName, err)
		}
		if !a.DryRun {
			fmt.Fprintf(out, "Its manifest %s was added.\n", m.FileName)
		}
	}
	if len(p.hosts) == 0 || a.DryRun {
		return nil
	}
	return apply(cmd, a, id, cluster["name"], p.hosts)
}

func newExport() *cobra.Command {
	a := action.New()
	var file string
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Write a file from which landfall cluster create -f creates the same cluster",
		Long: "Write the description of a cluster with its infra-envs, operators, manifests, overrides of the " +
			"install-config and the settings\nof its hosts, with the fields of the API (YAML). It has no pull " +
			"secret: give it to landfall cluster create -f with\n--pull-secret-file, or use that of the site.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			description, err := export(cmd, a, id)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(description)
			if err != nil {
				return fmt.Errorf("write the description: %w", err)
			}
			if file == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			out, finish, err := output.OpenFile(file, output.Private, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			_, err = out.Write(text)
			return finish(err)
		},
	}
	a.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write; default: standard output")
	return cmd
}

// export describes a cluster and its parts.
func export(cmd *cobra.Command, a *action.Action, id string) (action.Object, error) {
	ctx := cmd.Context()
	var found action.Object
	if err := a.Call(ctx, http.MethodGet, remote.ClusterPath(id), nil, &found); err != nil {
		return nil, err
	}
	description, err := describeCluster(found)
	if err != nil {
		return nil, err
	}
	var envs []action.Object
	if err := a.Call(ctx, http.MethodGet, remote.APIPath+"/infra-envs?cluster_id="+id, nil, &envs); err != nil {
		return nil, err
	}
	for i := range envs {
		if envs[i], err = describeInfraEnv(envs[i]); err != nil {
			return nil, err
		}
	}
	switch len(envs) {
	case 0:
	case 1:
		description[infraEnvField] = envs[0]
	default:
		description[infraEnvsField] = envs
	}
	manifests, err := exportManifests(cmd, a, id)
	if err != nil {
		return nil, err
	}
	if len(manifests) > 0 {
		description[manifestsField] = manifests
	}
	hosts, err := exportHosts(cmd, a, id)
	if err != nil {
		return nil, err
	}
	if len(hosts) > 0 {
		description[hostsField] = hosts
	}
	return description, nil
}

// describeCluster describes a cluster without its parts.
func describeCluster(answer action.Object) (action.Object, error) {
	var operators []any
	monitored, _ := answer["monitored_operators"].([]any)
	for _, one := range monitored {
		operator, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the response does not match the API: monitored_operators contains %v", one)
		}
		if operator["operator_type"] == string(models.OperatorTypeOlm) {
			operators = append(operators, map[string]any{"name": operator["name"],
				"properties": operator["properties"]})
		}
	}
	answer["olm_operators"] = operators
	cluster := requested[models.ClusterCreateParams](answer)
	if overrides := answer[overridesField]; !empty(overrides) {
		cluster[overridesField] = overrides
	}
	return cluster, nil
}

func describeInfraEnv(answer action.Object) (action.Object, error) {
	for _, field := range []string{"kernel_arguments", "static_network_config"} {
		text, _ := answer[field].(string) // an answer has JSON in a text, a request has a list
		if text == "" {
			continue
		}
		var list []any
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("read the field %s of the infra-env %v: %w", field, answer["name"], err)
		}
		answer[field] = list
	}
	env := requested[models.InfraEnvCreateParams](answer)
	env["image_type"] = answer["type"]
	delete(env, "cluster_id")
	return env, nil
}

// exportManifests returns the manifests that people added to a cluster.
func exportManifests(cmd *cobra.Command, a *action.Action, id string) ([]manifest, error) {
	var listed []models.Manifest
	address := remote.ClusterPath(id) + "/manifests"
	if err := a.Call(cmd.Context(), http.MethodGet, address, nil, &listed); err != nil {
		return nil, err
	}
	var all []manifest
	for _, one := range listed {
		name := path.Base(one.FileName)
		content, err := a.Fetch(cmd.Context(), address+"/files?"+url.Values{"folder": {one.Folder},
			"file_name": {name}}.Encode())
		if err != nil {
			return nil, fmt.Errorf("read the manifest %s: %w", name, err)
		}
		all = append(all, manifest{one.Folder, name, string(content)})
	}
	return all, nil
}

// derived are the fields that follow from other fields of the answer.
func derived() []string {
	return []string{"high_availability_mode", "cluster_network_cidr", "cluster_network_host_prefix",
		"service_network_cidr", "ocp_release_image", "pull_secret"}
}

// requested returns the fields of an answer that a request of type T has, without those that are
// empty or follow from others.
func requested[T any](answer action.Object) action.Object {
	fields := action.Object{}
	for field, value := range answer {
		if action.HasField[T](field) && !slices.Contains(derived(), field) && !empty(value) {
			fields[field] = withoutState(value)
		}
	}
	return fields
}

func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		for _, inner := range value {
			if !empty(inner) {
				return false
			}
		}
		return true
	}
	return false
}

// withoutState removes from a value what only an answer has.
func withoutState(value any) any {
	switch value := value.(type) {
	case []any:
		var all []any
		for _, one := range value {
			all = append(all, withoutState(one))
		}
		return all
	case map[string]any:
		clean := map[string]any{}
		for field, inner := range value {
			if field != "cluster_id" && field != "verification" && !empty(inner) {
				clean[field] = withoutState(inner)
			}
		}
		return clean
	}
	return value
}
