// Package state has the commands on the state of the appliance and its site.
package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/overview"
	"landfall/web/console"
)

// NewOverview returns the command that summarizes the site.
func NewOverview() *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use:   "overview",
		Short: "Show what needs a person, clusters and hosts by state, installations and disk usage",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Repeat(cmd, func() error { return showOverview(cmd, a) }, "clusters", "hosts", "bmcs")
		},
	})
}

func showOverview(cmd *cobra.Command, a *action.Action) error {
	answer, err := a.Fetch(cmd.Context(), console.OverviewRoute)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if a.Format.Tabular() {
		shown := new(overview.Overview)
		if err := json.Unmarshal(answer, shown); err != nil {
			return fmt.Errorf("the response does not match the API: %w", err)
		}
		if err := attention().Objects(out, &a.Format, shown.Attention); err != nil {
			return err
		}
		if more := shown.AttentionTotal - len(shown.Attention); more > 0 {
			fmt.Fprintf(out, "and %d more\n", more)
		}
		fmt.Fprintln(out)
	}
	return overviewKind().One(out, &a.Format, answer, describe)
}

func overviewKind() *output.Kind[overview.Overview] {
	return &output.Kind[overview.Overview]{
		Name: "overview", NameOf: func(*overview.Overview) string { return "site" },
	}
}

// attention describes what needs a person.
func attention() *output.Kind[overview.Item] {
	type column = output.Column[overview.Item]
	return &output.Kind[overview.Item]{
		Name: "item", Empty: "Nothing needs a person.", NameOf: func(i *overview.Item) string { return i.Name },
		Columns: []column{
			{Title: "NEEDS A PERSON", Value: func(i *overview.Item) string { return i.Kind + " " + i.Name }},
			{Title: "STATUS", State: true, Value: func(i *overview.Item) string { return i.Status }},
			{Title: "REASON", Value: func(i *overview.Item) string { return i.Info }},
		},
	}
}

func describe(d *output.Description, o *overview.Overview) {
	for _, one := range o.Installations {
		d.Add("Installing "+one.Name, "%d%% %s, OpenShift %s, since %s", one.Percent, one.Status, one.Version,
			output.Time(one.Started))
	}
	d.Add("Clusters", "%s", byState(o.Clusters))
	d.Add("Hosts", "%s", byState(o.Hosts))
	d.Add("Servers", "%s", servers(o))
	d.Add("Disk", "%s of %s free", output.Size(o.Disk.Free), output.Size(o.Disk.Total))
	for _, part := range o.Disk.Parts {
		d.Add("  "+cmp.Or(part.Name, "database"), "%s", output.Size(part.Bytes))
	}
}

// byState returns numbers by state: 3 (2 installed, 1 error).
func byState(numbers map[string]int) string {
	total := 0
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(numbers)) {
		total += numbers[state]
		parts = append(parts, fmt.Sprintf("%d %s", numbers[state], state))
	}
	if total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
}

func servers(o *overview.Overview) string {
	switch {
	case o.Servers == 0:
		return "none"
	case o.FailedServers == 0:
		return fmt.Sprintf("%d", o.Servers)
	}
	return fmt.Sprintf("%d (%d with an error)", o.Servers, o.FailedServers)
}
