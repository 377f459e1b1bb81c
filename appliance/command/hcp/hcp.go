// Package hcp has the commands on hosted clusters: control planes that run on a management cluster.
package hcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/web/hosted"
)

// interval is the time between two requests of a command that waits.
const interval = time.Second

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hcp",
		Short: "Create, scale and delete hosted clusters, whose control planes run on a management cluster",
		Long: "Manage hosted clusters: their control planes run as pods on a management cluster, and their workers " +
			"are " +
			"hosts of the site.\nWhat is asked for is stored at once, and delivered when the management cluster is " +
			"connected. NAME is the name of a hosted\ncluster, or its ID in Clusters Service.",
	}
	cmd.AddCommand(newList(), newCreate(), newShow(), newScale(), newKubeconfig(), newDelete(), newBundles(),
		newConsumers(), newConnection())
	return cmd
}

func kind() *output.Kind[hosted.Cluster] {
	type column = output.Column[hosted.Cluster]
	return &output.Kind[hosted.Cluster]{
		Name: "hcp", Empty: "No hosted clusters. Create one with landfall hcp create.",
		NameOf: func(c *hosted.Cluster) string { return c.Name },
		Columns: []column{
			{Title: "NAME", Value: func(c *hosted.Cluster) string { return c.Name }},
			{Title: "STATE", State: true, Value: func(c *hosted.Cluster) string { return c.State }},
			{Title: "VERSION", Value: versionText},
			{Title: "NODES", Value: nodesText},
			{Title: "MANAGEMENT CLUSTER", Value: func(c *hosted.Cluster) string { return c.Management }},
			{Title: "AS OF", Value: func(c *hosted.Cluster) string { return timeText(c.AsOf) }},
			{Title: "WAITS FOR", Value: func(c *hosted.Cluster) string { return c.Reason }},
			{Title: "API", Wide: true, Value: func(c *hosted.Cluster) string { return c.APIURL }},
			{Title: "ID", Wide: true, Value: func(c *hosted.Cluster) string { return c.CID }},
			{Title: "RESOURCE ID", Wide: true, Value: func(c *hosted.Cluster) string { return c.ResourceID }},
		},
	}
}

func versionText(c *hosted.Cluster) string {
	if c.Version == "" || c.Version == c.Wanted {
		return c.Wanted
	}
	return c.Version + " -> " + c.Wanted
}

func nodesText(c *hosted.Cluster) string {
	ready, wanted := int64(0), int64(0)
	for _, pool := range c.NodePools {
		ready, wanted = ready+pool.Ready, wanted+pool.Wanted
	}
	return fmt.Sprintf("%d/%d", ready, wanted)
}

func timeText(at time.Time) string {
	return cmp.Or(output.Time(at), "never")
}

func path(name string) string { return hosted.ClustersRoute + "/" + url.PathEscape(name) }

// resourceID returns the resource ID of a hosted cluster.
func resourceID(ctx context.Context, a *action.Action, name string) (string, error) {
	var found hosted.Detail
	err := a.Call(ctx, http.MethodGet, path(name), nil, &found)
	return found.ResourceID, err
}

// overview is the response about all hosted clusters and management clusters.
type overview struct {
	Disabled bool `json:"disabled"`
	// Subscription is the one of the appliance.
	Subscription string          `json:"subscription"`
	Clusters     json.RawMessage `json:"clusters"`
	Management   json.RawMessage `json:"management_clusters"`
}

func readOverview(ctx context.Context, a *action.Action) (found overview, err error) {
	if err := a.Call(ctx, http.MethodGet, hosted.Route, nil, &found); err != nil {
		return found, err
	}
	if found.Disabled {
		return found, errors.New("the appliance's configuration disables hosted clusters; set hosted.enabled to true " +
			"and restart the appliance")
	}
	return found, nil
}

func newList() *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List hosted clusters with what each waits for",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clusters := kind()
			empty := clusters.Empty
			return action.List(cmd, a, clusters, func() (json.RawMessage, error) {
				found, err := readOverview(cmd.Context(), a)
				if found.Subscription != "" {
					clusters.Empty = empty + " Requests to the resource provider name the subscription " +
						found.Subscription + "."
				}
				return found.Clusters, err
			})
		},
	})
}

func newShow() *cobra.Command {
	a := action.New()
	return a.Reading(&cobra.Command{
		Use: "show NAME", Short: "Show a hosted cluster: its state, node pools, DNS records and the commands to " +
			"look into it",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			object, err := a.Fetch(cmd.Context(), path(arguments[0]))
			if err != nil {
				return err
			}
			return detailKind().One(cmd.OutOrStdout(), &a.Format, object, describe)
		},
	})
}

func detailKind() *output.Kind[hosted.Detail] {
	return &output.Kind[hosted.Detail]{Name: "hcp", NameOf: func(c *hosted.Detail) string { return c.Name }}
}

func describe(d *output.Description, c *hosted.Detail) {
	d.Add("Name", "%s", c.Name)
	d.Add("ID", "%s", c.CID)
	d.Add("Resource ID", "%s", c.ResourceID)
	d.State("State", c.State)
	d.Add("Waits for", "%s", c.Reason)
	d.Add("As of", "%s", timeText(c.AsOf))
	d.Add("Version", "%s", versionText(&c.Cluster))
	d.Add("API", "%s", c.APIURL)
	d.Add("Management cluster", "%s", c.Management)
	if len(c.NodePools) > 0 {
		d.Heading("Node pools")
	}
	for _, pool := range c.NodePools {
		d.Add(pool.Name, "%s, %d of %d nodes of the profile %s. %s", pool.State, pool.Ready, pool.Wanted, pool.Profile,
			pool.Reason)
	}
	if len(c.DNS) > 0 {
		d.Heading("DNS records to add")
	}
	for _, r := range c.DNS {
		value := r.Value
		if value == "" {
			value = "?"
		}
		d.Add(r.Name, "%s %s  (%s)", r.Type, value, r.Note)
	}
	if len(c.Bundles) > 0 {
		d.Heading("Bundles")
	}
	for _, b := range c.Bundles {
		d.Add(b.Name, "version %d, %s. %s", b.Version, b.State, b.Reason)
	}
	d.Heading("Lines")
	for _, line := range c.Lines {
		d.Add(line.Title, "%s", line.Command)
	}
}

// parsePool reads a node pool of the form NAME=PROFILE:REPLICAS.
func parsePool(text string) (p hosted.NewPool, err error) {
	name, rest, _ := strings.Cut(text, "=")
	profile, replicas, found := strings.Cut(rest, ":")
	p = hosted.NewPool{Name: name, Profile: profile}
	if p.Replicas, err = strconv.ParseInt(replicas, 10, 64); err != nil || !found || name == "" || profile == "" ||
		p.Replicas < 0 {
		return p, fmt.Errorf("--node-pool %q is not NAME=PROFILE:REPLICAS, such as workers=large:3", text)
	}
	return p, nil
}

// objectOf returns a request as an object of the API.
func objectOf(request any) (object action.Object, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return object, nil
}

func newCreate() *cobra.Command {
	a := action.New()
	var version, group, location, prefix string
	var pools []string
	cmd := a.Changing(&cobra.Command{
		Use: "create NAME", Short: "Create a hosted cluster, with node pools", Args: cobra.ExactArgs(1),
		Example: "  landfall hcp create edge1 --version 4.19 --node-pool workers=large:3",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			wanted := hosted.NewCluster{Name: arguments[0], Version: version, Group: group, Location: location,
				DomainPrefix: prefix}
			for _, text := range pools {
				p, err := parsePool(text)
				if err != nil {
					return err
				}
				wanted.NodePools = append(wanted.NodePools, p)
			}
			body, err := objectOf(wanted)
			if err != nil {
				return err
			}
			answer, err := a.Send(cmd, http.MethodPost, hosted.ClustersRoute, body)
			if err != nil || a.DryRun {
				return err
			}
			return kind().One(cmd.OutOrStdout(), &a.Format, answer, nil)
		},
	})
	a.Format.AddFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&version, "version", "", "version, X.Y or X.Y.Z; default: the site's default release")
	flags.StringArrayVar(&pools, "node-pool", nil, "node pool as NAME=PROFILE:REPLICAS; may be repeated")
	flags.StringVar(&group, "group", "site", "resource group")
	flags.StringVar(&location, "location", "site", "management cluster, if there are several")
	flags.StringVar(&prefix, "domain-prefix", "", "first label of the cluster's domain; default: from its name")
	return cmd
}

// show writes a cluster after a change.
func show(cmd *cobra.Command, a *action.Action, name string) error {
	if a.DryRun {
		return nil
	}
	object, err := a.Fetch(cmd.Context(), path(name))
	if err != nil {
		return err
	}
	return kind().One(cmd.OutOrStdout(), &a.Format, object, nil)
}

func newScale() *cobra.Command {
	a := action.New()
	cmd := a.Changing(&cobra.Command{
		Use: "scale NAME POOL REPLICAS", Short: "Change the number of nodes of a node pool", Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			replicas, err := strconv.Atoi(arguments[2])
			if err != nil || replicas < 0 {
				return fmt.Errorf("the number of nodes %q is not a number from 0", arguments[2])
			}
			id, err := resourceID(cmd.Context(), a, arguments[0])
			if err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodPatch, id+"/"+arm.NodePools+"/"+url.PathEscape(arguments[1])+
				"?api-version="+arm.DefaultVersion,
				action.Object{"properties": action.Object{"replicas": replicas}}); err != nil {
				return err
			}
			return show(cmd, a, arguments[0])
		},
	})
	a.Format.AddFlag(cmd)
	return cmd
}

func newDelete() *cobra.Command {
	a := action.New()
	cmd := a.Removing(&cobra.Command{
		Use: "delete NAME", Aliases: []string{"rm"}, Short: "Delete a hosted cluster with its node pools",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := resourceID(cmd.Context(), a, arguments[0])
			if err != nil {
				return err
			}
			if err := a.Confirm(cmd, arguments[0], "The control plane, its data and all nodes of the hosted cluster "+
				"are removed."); err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodDelete, id+"?api-version="+arm.DefaultVersion, nil); err != nil ||
				a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The hosted cluster %s is being deleted.\n", arguments[0])
			return err
		},
	})
	return cmd
}

func newKubeconfig() *cobra.Command {
	a := action.New()
	var file string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "kubeconfig NAME", Short: "Request an administrator's kubeconfig of a hosted cluster, and write it",
		Long: "Request an administrator's kubeconfig of a hosted cluster, wait until the management cluster has " +
			"signed its " +
			"certificate, and write it.\nIt is valid for 24 hours.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			out, finish, err := output.OpenFile(file, output.Private, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			text, err := waitForKubeconfig(ctx, a, arguments[0])
			if err == nil {
				_, err = out.Write([]byte(text))
			}
			return finish(err)
		},
	}
	a.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "output", "o", "-", "file to write; -: standard output")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "time to wait for the management cluster")
	return cmd
}

// waitForKubeconfig requests a kubeconfig and waits for it.
func waitForKubeconfig(ctx context.Context, a *action.Action, name string) (string, error) {
	var asked hosted.Kubeconfig
	if err := a.Call(ctx, http.MethodPost, path(name)+"/kubeconfigs", nil, &asked); err != nil {
		return "", err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		var now hosted.Kubeconfig
		err := a.Call(ctx, http.MethodGet, path(name)+"/kubeconfigs/"+asked.Operation, nil, &now)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return "", &outcome.CodeError{Code: outcome.Waiting, Cause: errors.New("the management cluster has not " +
				"signed the certificate yet; the request stays for a day: ask again with a longer --timeout when " +
				"the management cluster is connected")}
		case err != nil:
			return "", err
		case now.Kubeconfig != "":
			return now.Kubeconfig, nil
		case record.IsTerminal(now.Status):
			return "", fmt.Errorf("the kubeconfig was not issued: %s", now.Error)
		}
		select {
		case <-ctx.Done(): // the next call fails
		case <-ticker.C:
		}
	}
}
