// Package bmc has the commands on servers that are booted and switched through their BMCs.
package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/bmc"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/web/console"
)

// interval is the time between two requests of a command that waits for a boot.
const interval = 200 * time.Millisecond

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bmc",
		Short: "Boot servers and control their power through their BMCs (Redfish)",
		Long: "Manage servers through their BMCs. The appliance boots a server from an infra-env's image by virtual " +
			"media and ejects the image\nwhen the server reboots from its disk. NAME is the name or the ID of a " +
			"server.",
	}
	cmd.AddCommand(newList(), newAdd(), newImport(), newShow(), newSet(), newBoot(), newPower(), newSimple("eject",
		"Eject the image from a server's virtual drives"), newSimple("inspect",
		"Read a server's inventory from its BMC again"), newLog(), newRemove())
	return cmd
}

// call is one call of a command.
type call struct{ *action.Action }

func newCall() *call { return &call{action.New()} }

// run adds the flags of a command that reads, and the function to run.
func (c *call) run(cmd *cobra.Command, run func(cmd *cobra.Command, arguments []string) error) *cobra.Command {
	c.Reading(cmd)
	c.Format.AddFormerFlag(cmd)
	cmd.RunE = run
	return cmd
}

// change adds the flags of a command that changes something, and the function to run.
func (c *call) change(cmd *cobra.Command, run func(cmd *cobra.Command, arguments []string) error) *cobra.Command {
	c.Changing(cmd)
	c.Format.AddFlag(cmd)
	c.Format.AddFormerFlag(cmd)
	cmd.RunE = run
	return cmd
}

func path(name string) string { return console.BMCsRoute + "/" + url.PathEscape(name) }

func kind() *output.Kind[bmc.Server] {
	type column = output.Column[bmc.Server]
	return &output.Kind[bmc.Server]{
		Name: "bmc", Empty: "No servers. Add one with landfall bmc add.",
		NameOf: func(s *bmc.Server) string { return s.Name },
		Columns: []column{
			{Title: "NAME", Value: func(s *bmc.Server) string { return s.Name }},
			{Title: "STATE", State: true, Value: func(s *bmc.Server) string { return string(s.State) }},
			{Title: "POWER", Value: func(s *bmc.Server) string { return powerText(s.Power) }},
			{Title: "MEDIA", Value: func(s *bmc.Server) string { return mediaText(s.Media) }},
			{Title: "ADDRESS", Value: func(s *bmc.Server) string { return s.Address }},
			{Title: "MODEL", Value: modelText},
			{Title: "ERROR", Value: troubleText},
			{Title: "INFRA-ENV", Wide: true, Value: func(s *bmc.Server) string { return s.InfraEnvID }},
			{Title: "OWNER", Wide: true, Value: func(s *bmc.Server) string { return s.Owner }},
			{Title: "ID", Wide: true, Value: func(s *bmc.Server) string { return s.ID }},
		},
	}
}

func newList() *cobra.Command {
	a := action.New()
	cmd := a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the servers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return action.List(cmd, a, kind(), func() (json.RawMessage, error) {
				var found struct {
					BMCs json.RawMessage `json:"bmcs"`
				}
				err := a.Call(cmd.Context(), http.MethodGet, console.BMCsRoute, nil, &found)
				return found.BMCs, err
			}, "bmcs")
		},
	})
	a.Format.AddFormerFlag(cmd)
	return cmd
}

func powerText(power bmc.Power) string {
	if power == bmc.PowerUnknown {
		return "unknown"
	}
	return string(power)
}

func mediaText(media *bmc.Media) string {
	if media == nil || !media.Inserted {
		return ""
	}
	return media.Image[strings.LastIndex(media.Image, "/")+1:]
}

func modelText(server *bmc.Server) string {
	if server.System == nil {
		return ""
	}
	return strings.TrimSpace(server.System.Manufacturer + " " + server.System.Model)
}

func troubleText(server *bmc.Server) string {
	if server.Error == nil {
		return ""
	}
	return server.Error.Message
}

func newAdd() *cobra.Command {
	c := newCall()
	wanted := &console.BMCCreate{}
	var passwordFile, caFile string
	cmd := c.change(&cobra.Command{
		Use: "add NAME ADDRESS", Short: "Add a server by the address of its BMC", Args: cobra.ExactArgs(2),
		Example: "  landfall bmc add node-1 redfish-virtualmedia://192.0.2.7 --username root --password-file bmc.txt " +
			"--skip-verify --infra-env site",
	}, func(cmd *cobra.Command, arguments []string) error {
		wanted.Name, wanted.Address = arguments[0], arguments[1]
		if passwordFile != "" {
			text, err := action.Read(cmd.InOrStdin(), passwordFile)
			if err != nil {
				return fmt.Errorf("read --password-file: %w", err)
			}
			wanted.Password = strings.TrimRight(string(text), "\r\n")
		} else if wanted.Username != "" {
			return outcome.Usagef("the password of %s is missing; give --password-file FILE", wanted.Username)
		}
		if caFile != "" {
			text, err := os.ReadFile(caFile)
			if err != nil {
				return fmt.Errorf("read --ca-file: %w", err)
			}
			wanted.CA = string(text)
		}
		return c.order(cmd, console.BMCsRoute, wanted)
	})
	flags := cmd.Flags()
	flags.StringVar(&wanted.Username, "username", "", "user name for the BMC")
	flags.StringVar(&passwordFile, "password-file", "", "file with the password for the BMC; - is standard input")
	flags.StringVar(&wanted.BootMAC, "boot-mac", "",
		"MAC address of the server's boot interface, which identifies its agent")
	flags.StringVar(&wanted.BootMode, "boot-mode", "", "UEFI, UEFISecureBoot or legacy; default: unchanged")
	flags.BoolVar(&wanted.SkipVerify, "skip-verify", false, "accept any certificate of the BMC")
	flags.StringVar(&caFile, "ca-file", "", "PEM file with the CA of the BMC's certificate")
	flags.StringVar(&wanted.InfraEnvID, "infra-env", "", "infra-env whose image the server boots, by name or ID")
	return cmd
}

func newSet() *cobra.Command {
	c := newCall()
	var passwordFile string
	cmd := c.change(&cobra.Command{
		Use: "set NAME [FIELD=VALUE…]", Short: "Change the address, credentials or infra-env of a server",
		Long: "Change a server by fields of the API:\n" +
			"  landfall bmc set node-1 username=admin --password-file bmc.txt\n" +
			"  landfall bmc set node-1 infra_env_id=site boot_mode=UEFI",
		Args: cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, arguments []string) error {
		body := action.Object{}
		if err := action.Fields[console.BMCUpdate](body, arguments[1:]); err != nil {
			return err
		}
		if err := action.Secret(cmd.InOrStdin(), body, "password", "password-file", passwordFile); err != nil {
			return err
		}
		if len(body) == 0 {
			return outcome.Usagef("there is nothing to change; give FIELD=VALUE or --password-file")
		}
		server, err := c.Action.Send(cmd, http.MethodPatch, path(arguments[0]), body)
		if err != nil || c.DryRun {
			return err
		}
		return c.print(cmd, server)
	})
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "file with the password for the BMC; - is standard input")
	return cmd
}

// order sends a request that changes a server, and prints the server in its response.
func (c *call) order(cmd *cobra.Command, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	var fields action.Object
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	server, err := c.Action.Send(cmd, http.MethodPost, path, fields)
	if err != nil || c.DryRun {
		return err
	}
	return c.print(cmd, server)
}

func (c *call) print(cmd *cobra.Command, server json.RawMessage) error {
	return kind().One(cmd.OutOrStdout(), &c.Format, server, describe)
}

func describe(d *output.Description, server *bmc.Server) {
	d.Add("Name", "%s", server.Name)
	d.Add("ID", "%s", server.ID)
	d.Add("Owner", "%s", server.Owner)
	d.Add("Address", "%s", server.Address)
	d.State("State", string(server.State))
	d.Add("Power", "%s", powerText(server.Power))
	d.Add("Media", "%s", mediaText(server.Media))
	d.Add("Infra-env", "%s", server.InfraEnvID)
	if s := server.System; s != nil {
		d.Add("System", "%s", s.Title())
		d.Add("BMC", "%s", strings.TrimSpace(s.BMCModel+" "+strings.TrimPrefix(s.BMCFirmware, s.BMCModel+" ")))
		d.Add("MAC addresses", "%s", strings.Join(s.MACs, " "))
	}
	d.Add("Activity", "%s", server.Activity)
	if server.Pending != nil {
		d.Add("Queued action", "%s", server.Pending.Kind)
	}
	if server.Booted != nil && server.Booted.Host != nil {
		d.Add("Host", "%s", server.Booted.Host.ID)
	}
	if !server.LastSeen.IsZero() {
		d.Add("Last response", "%s", output.Time(server.LastSeen))
	}
	d.Add("Error", "%s", troubleText(server))
	if len(server.History) > 0 {
		d.Heading("History")
	}
	for _, note := range server.History {
		d.Add(output.Time(note.At), "%s", note.Message)
	}
}

func newImport() *cobra.Command {
	c := newCall()
	dry := false
	cmd := c.run(&cobra.Command{
		Use: "import FILE.csv", Short: "Add the servers in a table", Args: cobra.ExactArgs(1),
		Long: "Add the servers in a table, separated by commas, semicolons or tabs (- is standard input). The " +
			"columns are name, address,\nusername, password, boot_mac, infra_env, skip_verify and boot_mode, in this " +
			"order or with a header row. The servers of valid\nrows are added. The command fails if any row is " +
			"invalid.",
	}, func(cmd *cobra.Command, arguments []string) error {
		file := cmd.InOrStdin()
		if arguments[0] != "-" {
			opened, err := os.Open(arguments[0])
			if err != nil {
				return fmt.Errorf("read the table: %w", err)
			}
			defer opened.Close()
			file = opened
		}
		var answer []byte
		if err := c.Client.Send(cmd.Context(), http.MethodPost, fmt.Sprintf("%s/import?dry_run=%t", console.BMCsRoute,
			dry), "text/csv", file, &answer); err != nil {
			return err
		}
		return c.writeImport(cmd.OutOrStdout(), answer, dry)
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "the appliance checks the table and adds nothing")
	return cmd
}

func (c *call) writeImport(out io.Writer, answer json.RawMessage, dry bool) error {
	var imported console.BMCImport
	if err := json.Unmarshal(answer, &imported); err != nil {
		return fmt.Errorf("the response does not match the API: %w", err)
	}
	if !c.Format.Tabular() {
		if err := c.Format.Value(out, answer); err != nil {
			return err
		}
	} else {
		for _, row := range imported.Rows {
			if row.Error != "" {
				output.Printf(out, "line %d: %s: %s\n", row.Line, row.Name, strings.ReplaceAll(row.Error, "\n", "; "))
			}
		}
		added := "servers added"
		if dry {
			added = "servers that would be added"
		}
		fmt.Fprintf(out, "%s: %d, rows rejected: %d\n", added, imported.Added, imported.Failed)
	}
	if imported.Failed > 0 {
		return &outcome.CodeError{Code: outcome.Failure}
	}
	return nil
}

func newShow() *cobra.Command {
	c := newCall()
	return c.run(&cobra.Command{Use: "show NAME", Aliases: []string{"get"}, Short: "Show a server",
		Args: cobra.ExactArgs(1)}, func(cmd *cobra.Command, arguments []string) error {
		server, err := c.Fetch(cmd.Context(), path(arguments[0]))
		if err != nil {
			return err
		}
		return c.print(cmd, server)
	})
}

func newBoot() *cobra.Command {
	c := newCall()
	var infraEnv string
	var force bool
	var wait time.Duration
	cmd := c.change(&cobra.Command{Use: "boot NAME", Short: "Boot a server now from its infra-env's image",
		Args: cobra.ExactArgs(1)}, func(cmd *cobra.Command, arguments []string) error {
		body := action.Object{"infra_env_id": infraEnv, "force": force}
		answer, err := c.Action.Send(cmd, http.MethodPost, path(arguments[0])+"/actions/boot", body)
		if err != nil || c.DryRun {
			return err
		}
		if wait == 0 {
			return c.print(cmd, answer)
		}
		ordered := new(bmc.Server)
		if err := json.Unmarshal(answer, ordered); err != nil {
			return fmt.Errorf("the response does not match the API: %w", err)
		}
		return c.await(cmd, ordered, answer, wait)
	})
	cmd.Flags().BoolVar(&force, "force", false,
		"boot the server even if that ends the installation of its host, or takes it out of its cluster")
	cmd.Flags().StringVar(&infraEnv, "infra-env", "", "infra-env to boot instead of the server's own, by name or ID")
	cmd.Flags().DurationVar(&wait, "wait", 0,
		"time to wait until the server is powered on with the image, or the boot has failed")
	return cmd
}

// await waits until a server's boot is done, and prints new errors. It ends with an error if
// another action replaced the boot, and at an error that keeps the boot from beginning: the error
// was known before the order and occurred again, or the BMC has not accepted the server's
// credentials.
func (c *call) await(cmd *cobra.Command, ordered *bmc.Server, answer json.RawMessage, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	server, printed := ordered, ordered.Error
	for {
		switch failed := server.Error; {
		case server.Pending == nil && server.Booted == nil,
			server.Pending != nil && server.Pending.Kind != bmc.ActionBoot:
			return canceledError(server)
		case server.Pending == nil:
			return c.print(cmd, answer)
		case failed == nil:
		case server.PasswordRemoved:
			return bootError(server, "The boot has not begun")
		case sameError(failed, printed):
		case !server.CredentialsGood, sameType(failed, ordered.Error):
			return bootError(server, "The boot has not begun")
		default:
			printed = failed
			output.Printf(cmd.ErrOrStderr(), "%s\n", failed.Message)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		current, err := c.Fetch(ctx, path(ordered.ID))
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return &outcome.CodeError{Code: outcome.Waiting,
				Cause: bootError(server, fmt.Sprintf("The server was not booted within %s", timeout))}
		case err != nil:
			return err
		}
		answer, server = current, new(bmc.Server)
		if err := json.Unmarshal(answer, server); err != nil {
			return fmt.Errorf("the response does not match the API: %w", err)
		}
	}
}

// bootError returns the error of a boot that is not done.
func bootError(server *bmc.Server, outcome string) error {
	message := fmt.Sprintf("%s. The boot of %s stays queued; landfall bmc show %s shows its progress.", outcome,
		server.Name, server.Name)
	if server.Error != nil {
		message = server.Error.Message + " " + message
	}
	return errors.New(message)
}

// canceledError returns the error of a boot that another action replaced.
func canceledError(server *bmc.Server) error {
	message := fmt.Sprintf("The boot of %[1]s was canceled by another action; landfall bmc show %[1]s shows the "+
		"server's history.", server.Name)
	return errors.New(message)
}

func sameType(a, b *bmc.ErrorStatus) bool { return a != nil && b != nil && a.Type == b.Type }

func sameError(a, b *bmc.ErrorStatus) bool { return sameType(a, b) && a.Count == b.Count }

func newPower() *cobra.Command {
	c := newCall()
	kinds := []string{"on", "off", "soft", "reset"}
	return c.change(&cobra.Command{
		Use: "power on|off|soft|reset NAME", Short: "Power a server on or off, shut it down, or restart it",
		Args: cobra.ExactArgs(2), ValidArgs: kinds,
	}, func(cmd *cobra.Command, arguments []string) error {
		if !slices.Contains(kinds, arguments[0]) {
			return outcome.Usagef("the power action %q is unknown; expected on, off, soft (the operating system shuts "+
				"down) or reset", arguments[0])
		}
		return c.order(cmd, path(arguments[1])+"/actions/power", action.Object{"action": arguments[0]})
	})
}

// newSimple returns a command for an action without parameters.
func newSimple(name, short string) *cobra.Command {
	c := newCall()
	return c.change(&cobra.Command{Use: name + " NAME", Short: short, Args: cobra.ExactArgs(1)},
		func(cmd *cobra.Command, arguments []string) error {
			return c.order(cmd, path(arguments[0])+"/actions/"+name, nil)
		})
}

func newLog() *cobra.Command {
	c := newCall()
	all := false
	cmd := c.run(&cobra.Command{Use: "log NAME", Short: "Show the request log of a server's BMC, without secrets",
		Args: cobra.ExactArgs(1)}, func(cmd *cobra.Command, arguments []string) error {
		var found struct {
			RequestLogs []json.RawMessage `json:"conversations"`
		}
		if err := c.Call(cmd.Context(), http.MethodGet, path(arguments[0])+"/conversations", nil, &found); err != nil {
			return err
		}
		logs := found.RequestLogs
		if !all && len(logs) > 1 {
			logs = logs[len(logs)-1:]
		}
		if !c.Format.Tabular() {
			text, err := json.Marshal(logs)
			if err != nil {
				return fmt.Errorf("write the log: %w", err)
			}
			return c.Format.Value(cmd.OutOrStdout(), text)
		}
		for _, text := range logs {
			var log bmc.RequestLog
			if err := json.Unmarshal(text, &log); err != nil {
				return fmt.Errorf("the response does not match the API: %w", err)
			}
			writeRequestLog(cmd.OutOrStdout(), log)
		}
		return nil
	})
	cmd.Flags().BoolVar(&all, "all", false, "all stored sessions, not only the last")
	return cmd
}

func writeRequestLog(out io.Writer, c bmc.RequestLog) {
	output.Printf(out, "%s %s", output.Time(c.Start), c.Job)
	if c.Repeated > 0 {
		output.Printf(out, " (same error %d times before)", c.Repeated)
	}
	fmt.Fprintln(out)
	for _, e := range c.Exchanges {
		output.Printf(out, "  %s %s %s\n", e.At.UTC().Format("15:04:05.000"), e.Method, e.Path)
		if e.Request != "" {
			output.Printf(out, "    > %s\n", e.Request)
		}
		response := e.Error
		if e.Status > 0 {
			response = fmt.Sprintf("%d %s", e.Status, strings.Join(e.ResponseHeaders, ", "))
		}
		output.Printf(out, "    < %s (%s)\n", response, e.Duration.Round(time.Millisecond))
		if e.Response != "" {
			output.Printf(out, "      %s\n", e.Response)
		}
	}
	if c.Error != "" {
		output.Printf(out, "  %s\n", c.Error)
	}
}

func newRemove() *cobra.Command {
	a := action.New()
	powerOff := false
	cmd := a.Removing(&cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm", "delete"}, Short: "Remove a server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			effect := "The server " + arguments[0] + " is removed from the appliance with the credentials of its BMC."
			if powerOff {
				effect += " It is powered off first."
			}
			if err := a.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			_, err := a.Send(cmd, http.MethodDelete, fmt.Sprintf("%s?power_off=%t", path(arguments[0]), powerOff), nil)
			if err != nil || a.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The server %s is being removed from the appliance.\n",
				arguments[0])
			return err
		},
	})
	cmd.Flags().BoolVar(&powerOff, "power-off", false, "power the server off first")
	return cmd
}
