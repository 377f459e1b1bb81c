// Package site has the commands on the network services for a site that has none.
package site

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/nameserver"
	"landfall/web/console"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use: "site", Short: "Show and switch the network services for a site that has none: DNS, NTP and DHCP",
		Long: "Show and switch the network services for a site that has none. Each is off by default and is switched " +
			"on for single network\ninterfaces. A service looks first whether another server answers there, and then " +
			"does not start.",
	}
	cmd.AddCommand(newStatus(), newService(siteservice.DNS, "Serve the DNS names of the clusters", newRecords()),
		newService(siteservice.NTP, "Serve the time"),
		newService(siteservice.DHCP, "Serve addresses and network boot", addressCommands()...),
		newService(siteservice.TFTP, "Serve boot loaders for the network boot of another DHCP server"))
	return cmd
}

// newService returns the command of one service.
func newService(service siteservice.Service, short string, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: string(service), Short: short}
	cmd.AddCommand(newServiceStatus(service), newEnable(service), newDisable(service))
	cmd.AddCommand(more...)
	return cmd
}

func statuses() *output.Kind[siteservice.Status] {
	type column = output.Column[siteservice.Status]
	return &output.Kind[siteservice.Status]{
		Name:   "site-service",
		Empty:  "No service is switched on. Switch one on with landfall site dns enable INTERFACE.",
		NameOf: func(s *siteservice.Status) string { return string(s.Service) + "/" + s.Interface },
		Columns: []column{
			{Title: "SERVICE", Value: func(s *siteservice.Status) string { return string(s.Service) }},
			{Title: "INTERFACE", Value: func(s *siteservice.Status) string { return s.Interface }},
			{Title: "STATE", State: true, Value: func(s *siteservice.Status) string { return string(s.State) }},
			{Title: "MODE", Wide: true, Value: func(s *siteservice.Status) string { return modeText(s) }},
			{Title: "ADDRESSES", Value: func(s *siteservice.Status) string { return strings.Join(s.Addresses, " ") }},
			{Title: "MESSAGE", Value: func(s *siteservice.Status) string { return s.Message }},
			{Title: "SOURCE", Wide: true, Value: func(s *siteservice.Status) string { return s.Source }},
		},
	}
}

func modeText(s *siteservice.Status) string {
	switch {
	case s.Range != "":
		return s.Range
	case s.LocalClock:
		return "local clock"
	}
	return string(s.Mode)
}

func newStatus() *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: "status", Short: "List the services that are switched on, and what stops when the appliance leaves",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := list(cmd, a, ""); err != nil || a.Watch || !a.Format.Tabular() {
				return err
			}
			overview, err := fetch(cmd, a)
			if err != nil || len(overview.Departure) == 0 {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "\nWhen the appliance leaves:")
			for _, text := range overview.Departure {
				fmt.Fprintln(cmd.OutOrStdout(), "  "+text)
			}
			return nil
		},
	})
}

func newServiceStatus(service siteservice.Service) *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: "status", Short: "List the interfaces for which the service is switched on", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, a, service) },
	})
}

// list lists a service, or all services for "".
func list(cmd *cobra.Command, a *action.Action, service siteservice.Service) error {
	return action.List(cmd, a, statuses(), func() (json.RawMessage, error) {
		overview, err := fetch(cmd, a)
		if err != nil {
			return nil, err
		}
		wanted := []siteservice.Status{}
		for _, status := range overview.Services {
			if service == "" || status.Service == service {
				wanted = append(wanted, status)
			}
		}
		return encode(wanted)
	})
}

func fetch(cmd *cobra.Command, a *action.Action) (*siteservice.Overview, error) {
	overview := new(siteservice.Overview)
	return overview, a.Call(cmd.Context(), http.MethodGet, console.SiteServicesRoute, nil, overview)
}

func encode(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return text, nil
}

func path(service siteservice.Service, iface string) string {
	return console.SiteServicesRoute + "/" + string(service) + "/" + url.PathEscape(iface)
}

func newEnable(service siteservice.Service) *cobra.Command {
	a := action.New()
	local, mode, addresses := false, "", ""
	cmd := a.Changing(&cobra.Command{
		Use: "enable INTERFACE", Short: "Switch the service on for an interface of the appliance's machine",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{}
			if local {
				body["local_clock"] = true
			}
			if mode != "" {
				body["mode"] = mode
			}
			if addresses != "" {
				body["mode"], body["range"] = dhcpserver.Dynamic, addresses
			}
			status, err := a.Send(cmd, http.MethodPut, path(service, arguments[0]), body)
			if err != nil || a.DryRun {
				return err
			}
			return statuses().One(cmd.OutOrStdout(), &a.Format, status, nil)
		},
	})
	a.Format.AddFlag(cmd)
	if service == siteservice.NTP {
		cmd.Flags().BoolVar(&local, "local-clock", false,
			"declare the appliance's clock as the time of the site while it is not synchronised")
	}
	if service == siteservice.DHCP {
		cmd.Flags().StringVar(&mode, "mode", "", "proxy (network boot beside another DHCP server) or reservations "+
			"(addresses for reserved machines)")
		output.Choices(cmd, "mode", string(dhcpserver.Proxy), string(dhcpserver.Reservations))
		cmd.Flags().StringVar(&addresses, "range", "", "FIRST-LAST: addresses for all machines")
	}
	return cmd
}

func newDisable(service siteservice.Service) *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "disable INTERFACE", Short: "Switch the service off for an interface", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			effect := fmt.Sprintf("Hosts that use the %s service of the appliance on %s lose it.",
				strings.ToUpper(string(service)), arguments[0])
			if err := a.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			_, err := a.Send(cmd, http.MethodDelete, path(service, arguments[0]), nil)
			if err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: switched off for %s\n", service, arguments[0])
			return err
		},
	})
}

// record is a DNS record with its cluster.
type record struct {
	nameserver.Record
	Cluster string `json:"cluster"`
}

func records() *output.Kind[record] {
	type column = output.Column[record]
	return &output.Kind[record]{
		Name: "record", Empty: "No records: no cluster has a name, a base domain and addresses yet.",
		NameOf: func(r *record) string { return r.Name },
		Columns: []column{
			{Title: "NAME", Value: func(r *record) string { return r.Name }},
			{Title: "TYPE", Value: func(r *record) string { return r.Type }},
			{Title: "VALUE", Value: func(r *record) string { return r.Value }},
			{Title: "CLUSTER", Value: func(r *record) string { return r.Cluster }},
		},
	}
}

func newRecords() *cobra.Command {
	a := action.New()
	cluster, zoneFile := "", false
	cmd := a.Reading(&cobra.Command{
		Use: "records", Short: "Show the DNS records of the clusters, for the site's own DNS", Args: cobra.NoArgs,
		Long: "Show the DNS records of the clusters. The site's own DNS needs them, because the appliance's DNS " +
			"leaves with the appliance.\nWith --zone-file, the output is part of a zone file (RFC 1035).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			overview, err := fetch(cmd, a)
			if err != nil {
				return err
			}
			found := []record{}
			for _, zone := range overview.DNS.Zones {
				if cluster != "" && zone.Cluster != cluster && zone.ClusterID != cluster && zone.Name != cluster {
					continue
				}
				for _, r := range zone.Records {
					found = append(found, record{r, zone.Cluster})
				}
				report(cmd, zone)
			}
			if cluster != "" && len(found) == 0 {
				return outcome.Usagef("no DNS record of cluster %s is known", cluster)
			}
			if zoneFile {
				for _, r := range found {
					fmt.Fprintln(cmd.OutOrStdout(), r)
				}
				return nil
			}
			text, err := encode(found)
			if err != nil {
				return err
			}
			return records().List(cmd.OutOrStdout(), &a.Format, text)
		},
	})
	cmd.Flags().StringVar(&cluster, "cluster", "", "only the records of this cluster")
	cmd.Flags().BoolVar(&zoneFile, "zone-file", false, "write the lines of a zone file")
	return cmd
}

// report writes to standard error why a zone is not served, and which addresses are missing.
func report(cmd *cobra.Command, zone siteservice.ZoneStatus) {
	out := cmd.ErrOrStderr()
	if !zone.Answered && zone.Message != "" {
		fmt.Fprintf(out, "%s: %s\n", zone.Name, zone.Message)
	}
	for _, d := range zone.Differences {
		fmt.Fprintf(out, "%s %s: %s here, %s at the DNS server %s\n", d.Name, d.Type, strings.Join(d.Ours, ", "),
			strings.Join(d.Site, ", "), d.Server)
	}
	for _, f := range zone.Failures {
		fmt.Fprintf(out, "%s %s: the DNS server %s failed (%s); it may have another record\n", f.Name, f.Type, f.Server,
			f.Code)
	}
	if len(zone.Missing) > 0 {
		fmt.Fprintf(out, "%s: the addresses of %s are not known yet\n", zone.Name, strings.Join(zone.Missing, ", "))
	}
}
