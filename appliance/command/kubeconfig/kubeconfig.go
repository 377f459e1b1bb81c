// Package kubeconfig has the commands that write kubeconfigs and show the credentials of clusters.
package kubeconfig

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// New returns the command that writes kubeconfigs.
func New() *cobra.Command {
	var cluster, file string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Write the kubeconfig of an installed cluster, or of the appliance's own Kubernetes API",
		Long: "Write the administrator's kubeconfig of an installed cluster:\n" +
			"landfall kubeconfig --cluster east -o east.kubeconfig && oc --kubeconfig east.kubeconfig get nodes\n\n" +
			"Without --cluster, write a kubeconfig for the appliance's Kubernetes API, with which kubectl and oc " +
			"apply the manifests\nof sites:\n" +
			"landfall kubeconfig -o site.kubeconfig && kubectl --kubeconfig site.kubeconfig apply -f site/\n\n" +
			"This kubeconfig contains the token of your login, or that in LANDFALL_TOKEN, and works until the token " +
			"ends.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := read(cmd.Context(), &appliance.Client, cluster)
			if err != nil {
				return err
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
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster", "",
		"ID or name of the installed cluster; default: the appliance itself")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write; default: standard output")
	return cmd
}

// read returns the kubeconfig of an installed cluster, or for "" the kubeconfig of the
// appliance's Kubernetes API.
func read(ctx context.Context, c *remote.Client, cluster string) ([]byte, error) {
	if cluster == "" {
		var at console.KubernetesAPI
		if err := c.Call(ctx, http.MethodGet, console.KubernetesRoute, nil, &at); err != nil {
			return nil, err
		}
		token, _, err := c.Credentials()
		if err != nil {
			return nil, err
		}
		return kubeconfigFor(at, token)
	}
	if err := c.Resolve(ctx, &cluster); err != nil {
		return nil, err
	}
	var text []byte
	return text, c.Call(ctx, http.MethodGet, remote.ClusterPath(cluster)+
		"/downloads/credentials?file_name=kubeconfig", nil, &text)
}

// NewCredentials returns the command that shows the credentials of a cluster.
func NewCredentials() *cobra.Command {
	var cluster string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "credentials --cluster ID",
		Short: "Show the URL of an installed cluster's console and the administrator's password",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			var found models.Credentials
			if err := appliance.Call(cmd.Context(), http.MethodGet, remote.ClusterPath(cluster)+"/credentials", nil,
				&found); err != nil {
				return err
			}
			return appliance.Format.Document(cmd.OutOrStdout(), "cluster", cluster, &found, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "console   %s\nuser      %s\npassword  %s\n", found.ConsoleURL,
					found.Username, found.Password)
				return err
			})
		},
	}
	appliance.Formerly(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID or name of the cluster")
	return cmd
}

// kubeconfigFor returns a kubeconfig with one cluster and a token ("" for none). The cluster's name
// shows users which API they use.
func kubeconfigFor(api console.KubernetesAPI, token string) ([]byte, error) {
	const name = "landfall"
	type object map[string]any
	cluster := object{"server": api.URL}
	if api.CertificateAuthority != "" {
		cluster["certificate-authority-data"] = base64.StdEncoding.EncodeToString([]byte(api.CertificateAuthority))
	}
	user := object{}
	if token != "" {
		user["token"] = token
	}
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": cluster}},
		"users":    []object{{"name": name, "user": user}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name, "namespace": "default"}}},
	})
}
