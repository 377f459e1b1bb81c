package command

import (
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"landfall/web/console"
)

func newKubeconfig() *cobra.Command {
	var file string
	appliance := &client{}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Write a kubeconfig for the Kubernetes API of a running appliance",
		Long: "Write a kubeconfig for the Kubernetes API of a running appliance, with which kubectl and oc apply the manifests of sites:\n" +
			"landfall kubeconfig -o site.kubeconfig && kubectl --kubeconfig site.kubeconfig apply -f site/",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var at console.KubernetesAPI
			if err := appliance.call(cmd.Context(), http.MethodGet, console.KubernetesRoute, nil, &at); err != nil {
				return err
			}
			text, err := kubeconfigFor(at.URL)
			if err != nil {
				return err
			}
			if file == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				return fmt.Errorf("the kubeconfig can't be written: %w; choose another place with -o", err)
			}
			return nil
		},
	}
	appliance.addFlag(cmd.Flags())
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write; default: the standard output")
	return cmd
}

// kubeconfigFor has one cluster, whose name tells people what they talk to.
func kubeconfigFor(server string) ([]byte, error) {
	const name = "landfall"
	type object map[string]any
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": server}}},
		"users":    []object{{"name": name, "user": object{}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name, "namespace": "default"}}},
	})
}
