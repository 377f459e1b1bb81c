// Package cluster has the commands on clusters.
package cluster

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

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
)

const clustersPath = remote.APIPath + "/clusters"

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Create, install and remove clusters",
		Long: "Create, install and remove clusters. A cluster is named by its name or its ID.\n\n" +
			"From nothing to a cluster:\n" +
			"  landfall cluster create east --version 4.20 --base-domain example.com --control-planes 1\n" +
			"  landfall infra-env create east --cluster east\n" +
			"  landfall image download --infra-env east -o east.iso\n" +
			"  (boot the hosts from east.iso)\n" +
			"  landfall cluster wait east --for ready\n" +
			"  landfall cluster install east --wait",
	}
	cmd.AddCommand(newCreate(), newList(), newShow(), newSet(), newInstall(), newCancel(),
		newReset(), newDelete(), newWait(), newExport(), newImport(),
		newAddHosts(), newApplyHosts(), newInstallConfig(), newProgress())
	return cmd
}

// kind describes clusters in lists.
func kind() *output.Kind[models.Cluster] {
	type column = output.Column[models.Cluster]
	return &output.Kind[models.Cluster]{
		Name: "cluster", Empty: "No clusters. Create one with landfall cluster create.",
		NameOf: func(c *models.Cluster) string { return c.Name },
		Columns: []column{
			{Title: "NAME", Value: func(c *models.Cluster) string { return c.Name }},
			{Title: "VERSION", Value: func(c *models.Cluster) string { return c.OpenshiftVersion }},
			{Title: "STATUS", State: true, Value: func(c *models.Cluster) string { return conv.Value(c.Status) }},
			{Title: "PROGRESS", Value: func(c *models.Cluster) string { return fmt.Sprintf("%d%%", Percentage(c)) }},
			{Title: "HOSTS", Value: func(c *models.Cluster) string { return fmt.Sprint(c.TotalHostCount) }},
			{Title: "AGE", Value: func(c *models.Cluster) string { return age(time.Time(c.CreatedAt)) }},
			{Title: "ID", Value: func(c *models.Cluster) string { return conv.Value((*string)(c.ID)) }},
			{Title: "DOMAIN", Wide: true, Value: func(c *models.Cluster) string { return c.BaseDNSDomain }},
			{Title: "CONTROL PLANES", Wide: true, Value: func(c *models.Cluster) string {
				return fmt.Sprint(c.ControlPlaneCount)
			}},
			{Title: "INFO", Wide: true, Value: func(c *models.Cluster) string { return conv.Value(c.StatusInfo) }},
		},
	}
}

// age returns the time since an instant in its largest unit.
func age(since time.Time) string {
	switch passed := time.Since(since); {
	case since.IsZero():
		return ""
	case passed < time.Minute:
		return fmt.Sprintf("%ds", int(passed.Seconds()))
	case passed < time.Hour:
		return fmt.Sprintf("%dm", int(passed.Minutes()))
	case passed < 48*time.Hour:
		return fmt.Sprintf("%dh", int(passed.Hours()))
	default:
		return fmt.Sprintf("%dd", int(passed.Hours()/24))
	}
}

func newList() *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, a) },
	})
}

// NewFormerList returns the former command that lists clusters, with its former flag.
func NewFormerList() *cobra.Command {
	a := action.New()
	cmd := &cobra.Command{
		Use: "clusters", Short: "List clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, a) },
	}
	a.Listing(cmd)
	a.Format.AddFormerFlag(cmd)
	return cmd
}

func list(cmd *cobra.Command, a *action.Action) error {
	return action.List(cmd, a, kind(), func() (json.RawMessage, error) {
		return a.Fetch(cmd.Context(), clustersPath)
	}, "clusters", "hosts")
}

func newShow() *cobra.Command {
	a := action.New()
	return a.Reading(&cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: "Show a cluster, its hosts and what it waits for",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			object, err := a.Fetch(cmd.Context(), remote.ClusterPath(id))
			if err != nil {
				return err
			}
			return kind().One(cmd.OutOrStdout(), &a.Format, object, describe)
		},
	})
}

func describe(d *output.Description, c *models.Cluster) {
	d.Add("Name", "%s", c.Name)
	d.Add("ID", "%s", conv.Value((*string)(c.ID)))
	d.State("Status", conv.Value(c.Status))
	d.Add("", "%s", conv.Value(c.StatusInfo))
	if percent := Percentage(c); percent > 0 {
		d.Add("Progress", "%d%%", percent)
	}
	d.Add("Version", "%s", c.OpenshiftVersion)
	d.Add("Domain", "%s.%s", c.Name, c.BaseDNSDomain)
	d.Add("Control planes", "%d", c.ControlPlaneCount)
	var addresses []string
	for _, vip := range c.APIVips {
		addresses = append(addresses, string(vip.IP))
	}
	d.Add("API addresses", "%s", strings.Join(addresses, ", "))
	addresses = nil
	for _, vip := range c.IngressVips {
		addresses = append(addresses, string(vip.IP))
	}
	d.Add("Ingress addresses", "%s", strings.Join(addresses, ", "))
	addresses = nil
	for _, network := range c.MachineNetworks {
		addresses = append(addresses, string(network.Cidr))
	}
	d.Add("Machine networks", "%s", strings.Join(addresses, ", "))
	if len(c.Hosts) > 0 {
		d.Heading("Hosts")
	}
	for _, host := range c.Hosts {
		d.Add(hostName(host), "%s", hostState(host))
	}
	if failures := failing(c); len(failures) > 0 && conv.Value(c.Status) != models.ClusterStatusInstalled {
		d.Heading("What it needs")
		for _, failure := range failures {
			d.Add(failure.of, "%s", failure.text)
		}
	}
}

func hostName(h *models.Host) string {
	host := remote.Host{ID: conv.Value((*string)(h.ID)), Requested: h.RequestedHostname, Inventory: h.Inventory}
	return host.Name()
}

func hostState(h *models.Host) string {
	state := conv.Value(h.Status)
	if h.Progress != nil && h.Progress.CurrentStage != "" && state != models.HostStatusInstalled {
		stage := strings.TrimSpace(string(h.Progress.CurrentStage) + " " + h.Progress.ProgressInfo)
		if hasStopped(h) {
			stage = state + " in " + stage
		}
		state = stage
	}
	return string(h.Role) + ", " + state
}

// hasStopped reports whether the installation of a host has ended before its end.
func hasStopped(h *models.Host) bool {
	return slices.Contains([]string{models.HostStatusError, models.HostStatusCancelled}, conv.Value(h.Status))
}

// failure is a validation that is not met.
type failure struct{ of, text string }

// failing returns the failed validations of a cluster and its hosts.
func failing(c *models.Cluster) []failure {
	failures := failed("cluster", c.ValidationsInfo)
	for _, host := range c.Hosts {
		failures = append(failures, failed(hostName(host), host.ValidationsInfo)...)
	}
	return failures
}

func failed(of, validations string) (failures []failure) {
	var groups map[string][]struct{ ID, Status, Message string }
	if err := json.Unmarshal([]byte(validations), &groups); err != nil {
		return nil // a new host has no validations
	}
	for _, name := range []string{"hardware", "network", "hosts-data", "configuration", "operators"} {
		for _, one := range groups[name] {
			if one.Status == "failure" {
				failures = append(failures, failure{of, one.Message})
			}
		}
	}
	return failures
}

func newInstall() *cobra.Command {
	a := action.New()
	var follow bool
	var timeout time.Duration
	cmd := a.Changing(&cobra.Command{
		Use: "install NAME", Short: "Install a cluster that is ready", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := act(cmd, a, arguments[0], "install", "The installation of %s has started. "+
				"Follow it with landfall cluster wait %s --for installed.\n")
			if err != nil || !follow || a.DryRun {
				return err
			}
			return await(cmd, a, id, installed, timeout)
		},
	})
	cmd.Flags().BoolVar(&follow, "wait", false, "wait until the cluster is installed")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "time limit of --wait; default: none")
	return cmd
}

// act calls an action of a cluster and prints a sentence, which has the cluster's name one or two
// times.
func act(cmd *cobra.Command, a *action.Action, name, verb, sentence string) (id string, err error) {
	if id, err = a.ClusterID(cmd.Context(), name); err != nil {
		return "", err
	}
	if _, err := a.Send(cmd, http.MethodPost, remote.ClusterPath(id)+"/actions/"+verb, nil); err != nil || a.DryRun {
		return id, err
	}
	fmt.Fprint(cmd.OutOrStdout(), strings.ReplaceAll(sentence, "%s", name))
	return id, nil
}

func newCancel() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "cancel NAME", Short: "Stop the installation of a cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			effect := "The installation of " + arguments[0] + " stops. Its hosts must boot the image again."
			if err := a.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			_, err := act(cmd, a, arguments[0], "cancel", "The installation of %s was cancelled. "+
				"landfall cluster reset %s prepares it for another installation.\n")
			return err
		},
	})
}

func newReset() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "reset NAME", Short: "Prepare a cluster for another installation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			effect := "The files of the installation of " + arguments[0] + " are removed, and its hosts must " +
				"boot the " +
				"image again."
			if err := a.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			_, err := act(cmd, a, arguments[0], "reset", "The cluster %s was reset. Boot its hosts from the image "+
				"again.\n")
			return err
		},
	})
}

func newDelete() *cobra.Command {
	a := action.New()
	var force bool
	cmd := a.Removing(&cobra.Command{
		Use: "delete NAME", Aliases: []string{"rm"}, Short: "Remove a cluster from the appliance",
		Long: "Remove a cluster and its files, such as its kubeconfig, from the appliance. An installed cluster " +
			"keeps running.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			name := arguments[0]
			id, err := a.ClusterID(cmd.Context(), name)
			if err != nil {
				return err
			}
			effect := "The cluster " + name + " is removed from the appliance with its kubeconfig, password and " +
				"logs. " +
				"An installed cluster keeps running."
			if err := a.Confirm(cmd, name, effect); err != nil {
				return err
			}
			path := remote.ClusterPath(id)
			if force {
				path += "?force=true"
			}
			if _, err := a.Send(cmd, http.MethodDelete, path, nil); err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The cluster %s was removed from the appliance.\n", name)
			return err
		},
	})
	cmd.Flags().BoolVar(&force, "force", false, "remove it also if the control planes of hosted clusters run on it")
	return cmd
}
