package hcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/workers"
	"landfall/web/hosted"
)

func workerKind() *output.Kind[workers.Host] {
	type column = output.Column[workers.Host]
	return &output.Kind[workers.Host]{
		Name: "worker", Empty: "No hosts of this appliance are offered.",
		NameOf: func(h *workers.Host) string { return h.ID },
		Columns: []column{
			{Title: "HOST", Value: func(h *workers.Host) string { return h.ID }},
			{Title: "NAME", Value: func(h *workers.Host) string { return h.Name }},
			{Title: "STATE", State: true, Value: func(h *workers.Host) string { return h.Status }},
			{Title: "CHOSEN FOR", Value: func(h *workers.Host) string { return h.ClusterDeployment }},
			{Title: "PROBLEM", Value: func(h *workers.Host) string { return h.Problem }},
			{Title: "CLUSTER", Wide: true, Value: func(h *workers.Host) string { return h.ClusterID }},
		},
	}
}

func workersPath(consumer string) string {
	return hosted.ManagementRoute + "/" + url.PathEscape(consumer) + "/workers"
}

func newWorkers() *cobra.Command {
	a := action.New()
	cmd := a.Listing(&cobra.Command{
		Use: "workers NAME", Short: "List the hosts of this appliance that are offered to a management cluster",
		Long: "List the hosts of this appliance that have an Agent on a management cluster, so that its node pools " +
			"can choose them.\nCHOSEN FOR is the ClusterDeployment of the hosted cluster whose node pool has the " +
			"host. PROBLEM says what a person must do.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return action.List(cmd, a, workerKind(), func() (json.RawMessage, error) {
				var found struct {
					Problem string          `json:"problem"`
					Hosts   json.RawMessage `json:"hosts"`
				}
				err := a.Call(cmd.Context(), http.MethodGet, workersPath(arguments[0]), nil, &found)
				if found.Problem != "" {
					fmt.Fprintln(cmd.ErrOrStderr(), found.Problem)
				}
				return found.Hosts, err
			})
		},
	})
	cmd.AddCommand(newSetWorkers())
	return cmd
}

func newSetWorkers() *cobra.Command {
	a := action.New()
	var own bool
	cmd := a.Changing(&cobra.Command{
		Use: "set NAME INFRA-ENV=PROFILE...", Short: "Choose the infra-envs whose hosts become workers",
		Long: "Choose the infra-envs of this appliance whose hosts become workers of hosted clusters, each with the " +
			"hardware profile of its hosts.\nWith --own, the workers are hosts of the management cluster's own " +
			"assisted service. Hosts of this appliance that are part of a node pool stay\nin it.",
		Example: "  landfall hcp consumers workers set mc1 rack1=large rack2=small",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			wanted, err := workersOf(cmd, a, arguments[1:])
			if err != nil {
				return err
			}
			if own != (len(wanted) == 0) {
				return errors.New("name infra-envs with their profiles, such as rack1=large, or use --own")
			}
			body, err := objectOf(hosted.ChosenWorkers{Workers: wanted})
			if err != nil {
				return err
			}
			_, err = a.Send(cmd, http.MethodPut, workersPath(arguments[0]), body)
			return err
		},
	})
	cmd.Flags().BoolVar(&own, "own", false, "use the management cluster's own assisted service")
	return cmd
}

// workersOf reads pairs of an infra-env's name or ID and a hardware profile.
func workersOf(cmd *cobra.Command, a *action.Action, pairs []string) ([]record.Workers, error) {
	wanted := make([]record.Workers, 0, len(pairs))
	for _, pair := range pairs {
		name, profile, ok := strings.Cut(pair, "=")
		if !ok || name == "" || profile == "" {
			return nil, fmt.Errorf("%q is not an infra-env with the hardware profile of its hosts, such as rack1=large",
				pair)
		}
		id, err := a.InfraEnvID(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, record.Workers{InfraEnvID: id, Profile: profile})
	}
	return wanted, nil
}
