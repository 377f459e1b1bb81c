package hcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/web/hosted"
)

func bundleKind() *output.Kind[hosted.Bundle] {
	type column = output.Column[hosted.Bundle]
	return &output.Kind[hosted.Bundle]{
		Name: "bundle", Empty: "No bundles.", NameOf: func(b *hosted.Bundle) string { return b.Name },
		Columns: []column{
			{Title: "NAME", Value: func(b *hosted.Bundle) string { return b.Name }},
			{Title: "STATE", State: true, Value: func(b *hosted.Bundle) string { return b.State }},
			{Title: "VERSION", Value: func(b *hosted.Bundle) string { return strconv.FormatInt(b.Version, 10) }},
			{Title: "REPORTED", Value: func(b *hosted.Bundle) string { return strconv.FormatInt(b.Reported, 10) }},
			{Title: "AS OF", Value: func(b *hosted.Bundle) string { return timeText(b.At) }},
			{Title: "CONSUMER", Value: func(b *hosted.Bundle) string { return b.Consumer }},
			{Title: "REASON", Value: func(b *hosted.Bundle) string { return b.Reason }},
			{Title: "ID", Wide: true, Value: func(b *hosted.Bundle) string { return b.ID }},
		},
	}
}

func newBundles() *cobra.Command {
	a := action.New()
	var id string
	cmd := a.Listing(&cobra.Command{
		Use: "bundles [NAME]", Short: "List the bundles of a hosted cluster, or of all", Args: cobra.MaximumNArgs(1),
		Long: "List the bundles of manifests for the management clusters. REPORTED is the version about which the " +
			"management cluster\nreported last. --id ID -o yaml shows the manifests and the status of one bundle; " +
			"the " +
			"values of Secrets are left out.",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if id != "" {
				object, err := a.Fetch(cmd.Context(), hosted.BundlesRoute+"/"+url.PathEscape(id))
				if err != nil {
					return err
				}
				return bundleKind().One(cmd.OutOrStdout(), &a.Format, object, nil)
			}
			query := ""
			if len(arguments) > 0 {
				query = "?cluster=" + url.QueryEscape(arguments[0])
			}
			return action.List(cmd, a, bundleKind(), func() (json.RawMessage, error) {
				var found struct {
					Bundles json.RawMessage `json:"bundles"`
				}
				err := a.Call(cmd.Context(), http.MethodGet, hosted.BundlesRoute+query, nil, &found)
				return found.Bundles, err
			})
		},
	})
	cmd.Flags().StringVar(&id, "id", "", "show one bundle")
	return cmd
}

func consumerKind() *output.Kind[hosted.ManagementCluster] {
	type column = output.Column[hosted.ManagementCluster]
	return &output.Kind[hosted.ManagementCluster]{
		Name: "consumer", Empty: "No management clusters. Add one with landfall hcp consumers add.",
		NameOf: func(m *hosted.ManagementCluster) string { return m.Consumer },
		Columns: []column{
			{Title: "NAME", Value: func(m *hosted.ManagementCluster) string { return m.Consumer }},
			{Title: "HOSTED CLUSTERS",
				Value: func(m *hosted.ManagementCluster) string { return strconv.Itoa(m.Clusters) }},
			{Title: "CONNECTED SINCE", Value: func(m *hosted.ManagementCluster) string {
				if m.Since.IsZero() {
					return "-"
				}
				return timeText(m.Since)
			}},
			{Title: "LAST SEEN", Value: func(m *hosted.ManagementCluster) string { return timeText(m.Seen) }},
			{Title: "BASE DOMAIN", Value: func(m *hosted.ManagementCluster) string { return m.BaseDomain }},
			{Title: "PUBLISHES BY", Value: func(m *hosted.ManagementCluster) string {
				return strings.TrimSpace(m.Publish + " " + m.Address)
			}},
			{Title: "HELD", Value: func(m *hosted.ManagementCluster) string { return m.Held }},
			{Title: "LAYOUT", Wide: true, Value: func(m *hosted.ManagementCluster) string { return m.Layout }},
			{Title: "AGENTS IN", Wide: true,
				Value: func(m *hosted.ManagementCluster) string { return m.AgentNamespace }},
			{Title: "PROFILES", Wide: true, Value: func(m *hosted.ManagementCluster) string {
				return strings.Join(m.Profiles, " ")
			}},
		},
	}
}

func newConsumers() *cobra.Command {
	a := action.New()
	cmd := a.Listing(&cobra.Command{
		Use: "consumers", Short: "List, add and remove management clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return action.List(cmd, a, consumerKind(), func() (json.RawMessage, error) {
				found, err := readOverview(cmd.Context(), a)
				return found.Management, err
			})
		},
	})
	cmd.AddCommand(newAddConsumer(), newAgent(), newRemoveConsumer(), newWorkers())
	return cmd
}

func newAddConsumer() *cobra.Command {
	a := action.New()
	var m record.Management
	var cluster string
	var offered []string
	var force, apply bool
	cmd := a.Changing(&cobra.Command{
		Use: "add NAME", Short: "Use a cluster for hosted control planes", Args: cobra.ExactArgs(1),
		Long: "Use a cluster for hosted control planes. First the command says what the cluster lacks: HyperShift's " +
			"operator, Agents,\na default storage class, memory, and images in the mirror. With --apply, the agent's " +
			"manifests are applied to a cluster\nthat this appliance installed; otherwise landfall hcp consumers " +
			"agent writes them to a file.",
		Example: "  landfall hcp consumers add mc1 --base-domain hosted.example.com --address 192.168.1.10 --profile " +
			"large",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			m.Consumer = arguments[0]
			if cluster != "" {
				var err error
				if m.ClusterID, err = a.ClusterID(cmd.Context(), cluster); err != nil {
					return err
				}
			}
			var err error
			if m.Workers, err = workersOf(cmd, a, offered); err != nil {
				return err
			}
			body, err := objectOf(m)
			if err != nil {
				return err
			}
			missing, err := sayMissing(cmd, a, body)
			if err != nil && !force {
				return err
			}
			if missing && !force {
				return errors.New("the cluster can't run control planes yet, and nothing was changed. Add what is " +
					"missing, or use --force")
			}
			answer, err := a.Send(cmd, http.MethodPost, hosted.ManagementRoute+"?force=true", body)
			if err != nil || a.DryRun {
				return err
			}
			if apply {
				if err := applyAgent(cmd, a, m.Consumer, ""); err != nil {
					return err
				}
			}
			return consumerKind().One(cmd.OutOrStdout(), &a.Format, answer, nil)
		},
	})
	a.Format.AddFlag(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&force, "force", false, "use the cluster although it lacks something")
	flags.BoolVar(&apply, "apply", false, "apply the agent's manifests to the cluster (with --cluster)")
	flags.StringVar(&m.AgentImage, "image", "", "image of the agent in the site's mirror, by its digest")
	flags.StringVar(&cluster, "cluster", "", "cluster that this appliance installed, which gives the domain, the "+
		"address "+
		"and the networks")
	flags.StringVar(&m.BaseDomain, "base-domain", "", "domain below which the hosted clusters have theirs")
	flags.StringVar(&m.Publish, "publish", "NodePort", "how the control planes are published: NodePort or LoadBalancer")
	flags.StringVar(&m.Address, "address", "", "address or name of the cluster's nodes, for NodePort")
	flags.StringSliceVar(&m.PodNetworks, "pod-network", nil, "pod networks of the management cluster")
	flags.StringSliceVar(&m.ServiceNetworks, "service-network", nil, "service networks of the management cluster")
	flags.StringSliceVar(&m.MachineNetworks, "machine-network", nil, "machine networks of the management cluster")
	flags.StringVar(&m.AgentNamespace, "agent-namespace", record.DefaultAgentNamespace,
		"namespace with the InfraEnv and the Agents of the workers")
	flags.StringSliceVar(&offered, "workers", nil, "infra-envs of this appliance whose hosts become workers, with "+
		"their hardware profile: rack1=large; default: the Agents of the cluster's own assisted service")
	flags.StringSliceVar(&m.Profiles, "profile", nil, "hardware profiles of the agents; default: any")
	flags.StringVar(&m.StorageClass, "storage-class", "", "storage class for etcd; default: the cluster's default")
	flags.BoolVar(&m.HighlyAvailable, "highly-available", false, "run each control plane three times")
	flags.StringVar(&m.Layout, "layout", "", "layout of the bundles: flat, or nested for a cluster with the "+
		"multicluster engine; default: by the cluster")
	output.Choices(cmd, "publish", "NodePort", "LoadBalancer")
	output.Choices(cmd, "layout", controlplane.Flat, controlplane.Nested)
	return cmd
}

// sayMissing writes what a cluster lacks as a management cluster. It reports whether control planes
// can't run on it.
func sayMissing(cmd *cobra.Command, a *action.Action, body action.Object) (missing bool, err error) {
	if a.DryRun {
		return false, nil
	}
	var found hosted.Findings
	if err := a.Call(cmd.Context(), http.MethodPost, hosted.ManagementRoute+"/check",
		body, &found); err != nil {
		return false, err
	}
	for _, f := range found.Findings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", f.Severity, f.Sentence)
	}
	return len(readiness.Errors(found.Findings)) > 0, nil
}

// applyAgent applies the manifests of an agent to its management cluster.
func applyAgent(cmd *cobra.Command, a *action.Action, consumer, image string) error {
	answer, err := a.Send(cmd, http.MethodPost, hosted.ManagementRoute+"/"+url.PathEscape(consumer)+"/agent?image="+
		url.QueryEscape(image), nil)
	if err != nil || a.DryRun {
		return err
	}
	var applied hosted.Applied
	if err := json.Unmarshal(answer, &applied); err != nil {
		return fmt.Errorf("read the answer of the appliance: %w", err)
	}
	for _, object := range applied.Objects {
		fmt.Fprintf(cmd.ErrOrStderr(), "applied %s\n", object)
	}
	return nil
}

func newRemoveConsumer() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Stop using a cluster without hosted clusters",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := a.Confirm(cmd, arguments[0], "The cluster can no longer run hosted control planes."); err != nil {
				return err
			}
			_, err := a.Send(cmd, http.MethodDelete, hosted.ManagementRoute+"/"+url.PathEscape(arguments[0]), nil)
			return err
		},
	})
}

func newAgent() *cobra.Command {
	a := action.New()
	var file, image string
	var apply bool
	cmd := &cobra.Command{
		Use: "agent NAME", Short: "Issue a certificate for the agent of a management cluster, and write its manifests",
		Example: "  landfall hcp consumers agent mc1 -o agent.yaml && oc --kubeconfig mc1.kubeconfig apply -f " +
			"agent.yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if apply {
				return applyAgent(cmd, a, arguments[0], image)
			}
			out, finish, err := output.OpenFile(file, output.Private, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			var text []byte
			err = a.Call(cmd.Context(), http.MethodGet, hosted.ManagementRoute+"/"+url.PathEscape(arguments[0])+
				"/agent?image="+url.QueryEscape(image), nil, &text)
			if err == nil {
				_, err = out.Write(text)
			}
			return finish(err)
		},
	}
	a.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "output", "o", "-", "file to write; -: standard output")
	cmd.Flags().StringVar(&image, "image", "", "image of the agent in the site's mirror, by its digest; default: "+
		"the one that was named last")
	cmd.Flags().BoolVar(&apply, "apply", false, "apply the manifests to a cluster that this appliance installed")
	return cmd
}
