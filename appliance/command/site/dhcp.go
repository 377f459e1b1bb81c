package site

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/web/console"
)

// addressCommands returns the commands on the leases and reservations of DHCP.
func addressCommands() []*cobra.Command {
	return []*cobra.Command{
		newAddresses("leases", "List the addresses that machines have", leases(),
			func(a *siteservice.Addresses) any { return a.Leases }),
		newAddresses("reservations", "List the addresses that are reserved for machines", reservations(),
			func(a *siteservice.Addresses) any { return a.Reservations }),
		newAddresses("events", "List the machines that booted from the network, or asked in vain", events(),
			func(a *siteservice.Addresses) any { return a.Events }),
		newReserve(), newUnreserve(),
	}
}

// newAddresses returns a command that lists a part of the description of DHCP.
func newAddresses[T any](use, short string, kind *output.Kind[T],
	part func(*siteservice.Addresses) any) *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return action.List(cmd, a, kind, func() (json.RawMessage, error) {
				found := new(siteservice.Addresses)
				if err := a.Call(cmd.Context(), http.MethodGet, console.SiteAddressesRoute, nil, found); err != nil {
					return nil, err
				}
				return encode(part(found))
			})
		},
	})
}

func leases() *output.Kind[dhcpserver.Lease] {
	type column = output.Column[dhcpserver.Lease]
	return &output.Kind[dhcpserver.Lease]{
		Name: "lease", Empty: "No machine has an address from the appliance.",
		NameOf: func(l *dhcpserver.Lease) string { return l.MAC },
		Columns: []column{
			{Title: "ADDRESS", Value: func(l *dhcpserver.Lease) string { return l.Address }},
			{Title: "MAC", Value: func(l *dhcpserver.Lease) string { return l.MAC }},
			{Title: "HOSTNAME", Value: func(l *dhcpserver.Lease) string { return l.Hostname }},
			{Title: "INTERFACE", Value: func(l *dhcpserver.Lease) string { return l.Interface }},
			{Title: "UNTIL", Value: func(l *dhcpserver.Lease) string {
				if l.Duration >= dhcpserver.Infinite {
					return "for ever"
				}
				return output.Time(l.Until)
			}},
		},
	}
}

func reservations() *output.Kind[dhcpserver.Reservation] {
	type column = output.Column[dhcpserver.Reservation]
	return &output.Kind[dhcpserver.Reservation]{
		Name: "reservation", Empty: "No reservations. Add one with landfall site dhcp reserve MAC ADDRESS.",
		NameOf: func(r *dhcpserver.Reservation) string { return r.MAC },
		Columns: []column{
			{Title: "MAC", Value: func(r *dhcpserver.Reservation) string { return r.MAC }},
			{Title: "ADDRESS", Value: func(r *dhcpserver.Reservation) string { return r.Address }},
			{Title: "HOSTNAME", Value: func(r *dhcpserver.Reservation) string { return r.Hostname }},
		},
	}
}

func events() *output.Kind[dhcpserver.Event] {
	type column = output.Column[dhcpserver.Event]
	return &output.Kind[dhcpserver.Event]{
		Name: "event", Empty: "No machine has asked for an address or a boot file since the appliance started.",
		NameOf: func(e *dhcpserver.Event) string { return e.MAC },
		Columns: []column{
			{Title: "AT", Value: func(e *dhcpserver.Event) string { return output.Time(e.At) }},
			{Title: "INTERFACE", Value: func(e *dhcpserver.Event) string { return e.Interface }},
			{Title: "MAC", Value: func(e *dhcpserver.Event) string { return e.MAC }},
			{Title: "KIND", State: true, Value: func(e *dhcpserver.Event) string { return string(e.Kind) }},
			{Title: "MESSAGE", Value: func(e *dhcpserver.Event) string { return e.Message }},
		},
	}
}

func reservationPath(mac string) string {
	return console.SiteReservationsRoute + "/" + url.PathEscape(mac)
}

func newReserve() *cobra.Command {
	a := action.New()
	hostname := ""
	cmd := a.Changing(&cobra.Command{
		Use: "reserve MAC ADDRESS", Short: "Set the address that a machine gets by DHCP", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{"address": arguments[1]}
			if hostname != "" {
				body["hostname"] = hostname
			}
			stored, err := a.Send(cmd, http.MethodPut, reservationPath(arguments[0]), body)
			if err != nil || a.DryRun {
				return err
			}
			return reservations().One(cmd.OutOrStdout(), &a.Format, stored, nil)
		},
	})
	a.Format.AddFlag(cmd)
	cmd.Flags().StringVar(&hostname, "hostname", "", "host name that the machine gets")
	return cmd
}

func newUnreserve() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "unreserve MAC", Short: "Remove the reservation of a machine; its lease stays", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := a.Confirm(cmd, arguments[0], "The machine can get another address at its next "+
				"boot."); err != nil {
				return err
			}
			if _, err := a.Send(cmd, http.MethodDelete, reservationPath(arguments[0]), nil); err != nil || a.DryRun {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: reservation removed\n", arguments[0])
			return err
		},
	})
}
