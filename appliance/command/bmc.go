package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/bmc"
	"landfall/appliance/command/outcome"
	"landfall/web/console"
)

// bmcs calls a running appliance's API for servers with BMCs.
type bmcs struct {
	*client
	asJSON bool
}

func newBMC() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bmc",
		Short: "Boot servers and control their power through their BMCs (Redfish)",
		Long: "Manage servers through their BMCs. The appliance boots a server from an infra-env's image by virtual " +
			"media and ejects the image\nwhen the server reboots from its disk. NAME is the name or the ID of a " +
			"server.",
	}
	group(cmd, newBMCList(), newBMCAdd(), newBMCImport(), newBMCShow(), newBMCBoot(), newBMCPower(), newBMCEject(),
		newBMCInspect(), newBMCLog(), newBMCRemove())
	return cmd
}

// command adds the common parts to a command: the URL, --json, and the function to run.
func (b *bmcs) command(cmd *cobra.Command, run func(ctx context.Context, out io.Writer,
	arguments []string) error) *cobra.Command {
	b.addFlag(cmd.Flags())
	cmd.Flags().BoolVar(&b.asJSON, "json", false, "write the JSON of the API")
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		return run(cmd.Context(), cmd.OutOrStdout(), arguments)
	}
	return cmd
}

func bmcPath(name string) string { return console.BMCsRoute + "/" + url.PathEscape(name) }

func newBMCList() *cobra.Command {
	b := &bmcs{client: newClient()}
	return b.command(&cobra.Command{Use: "list", Short: "List the servers", Args: cobra.NoArgs},
		func(ctx context.Context, out io.Writer, _ []string) error {
			var found struct {
				BMCs []*bmc.Server `json:"bmcs"`
			}
			if err := b.call(ctx, http.MethodGet, console.BMCsRoute, nil, &found); err != nil {
				return err
			}
			if b.asJSON {
				return writeJSON(out, found.BMCs)
			}
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "NAME\tSTATE\tPOWER\tMEDIA\tADDRESS\tMODEL\tERROR")
			for _, server := range found.BMCs {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", server.Name, server.State, powerText(server.Power),
					mediaText(server.Media), server.Address, modelText(server), troubleText(server))
			}
			return table.Flush()
		})
}

func powerText(power bmc.Power) string {
	if power == bmc.PowerUnknown {
		return "unknown"
	}
	return string(power)
}

func mediaText(media *bmc.Media) string {
	if media == nil || !media.Inserted {
		return "-"
	}
	return media.Image[strings.LastIndex(media.Image, "/")+1:]
}

func modelText(server *bmc.Server) string {
	if server.System == nil {
		return "-"
	}
	return strings.TrimSpace(server.System.Manufacturer + " " + server.System.Model)
}

func troubleText(server *bmc.Server) string {
	if server.Error == nil {
		return ""
	}
	return server.Error.Message
}

func newBMCAdd() *cobra.Command {
	b := &bmcs{client: newClient()}
	wanted := &console.BMCCreate{}
	var passwordFile, caFile string
	cmd := b.command(&cobra.Command{
		Use: "add NAME ADDRESS", Short: "Add a server by the address of its BMC", Args: cobra.ExactArgs(2),
		Example: "  landfall bmc add node-1 redfish-virtualmedia://192.0.2.7 --username root --password-file bmc.txt " +
			"--skip-verify --infra-env site",
	}, func(ctx context.Context, out io.Writer, arguments []string) error {
		wanted.Name, wanted.Address = arguments[0], arguments[1]
		if passwordFile != "" {
			text, err := os.ReadFile(passwordFile)
			if err != nil {
				return fmt.Errorf("read --password-file: %w", err)
			}
			wanted.Password = strings.TrimRight(string(text), "\r\n")
		}
		if caFile != "" {
			text, err := os.ReadFile(caFile)
			if err != nil {
				return fmt.Errorf("read --ca-file: %w", err)
			}
			wanted.CA = string(text)
		}
		return b.showAfter(ctx, out, http.MethodPost, console.BMCsRoute, wanted)
	})
	flags := cmd.Flags()
	flags.StringVar(&wanted.Username, "username", "", "user name for the BMC")
	flags.StringVar(&passwordFile, "password-file", "", "file with the password for the BMC")
	flags.StringVar(&wanted.BootMAC, "boot-mac", "",
		"MAC address of the server's boot interface, which identifies its agent")
	flags.StringVar(&wanted.BootMode, "boot-mode", "", "UEFI, UEFISecureBoot or legacy; default: unchanged")
	flags.BoolVar(&wanted.SkipVerify, "skip-verify", false, "accept any certificate of the BMC")
	flags.StringVar(&caFile, "ca-file", "", "PEM file with the CA of the BMC's certificate")
	flags.StringVar(&wanted.InfraEnvID, "infra-env", "", "infra-env whose image the server boots, by name or ID")
	return cmd
}

// showAfter sends a request and prints the server in its response.
func (b *bmcs) showAfter(ctx context.Context, out io.Writer, method, path string, body any) error {
	server := new(bmc.Server)
	if err := b.call(ctx, method, path, body, server); err != nil {
		return err
	}
	if b.asJSON {
		return writeJSON(out, server)
	}
	return writeServer(out, server)
}

func writeServer(out io.Writer, server *bmc.Server) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s:\t%s\n", name, value)
		}
	}
	line("Name", server.Name)
	line("ID", server.ID)
	line("Owner", server.Owner)
	line("Address", server.Address)
	line("State", string(server.State))
	line("Power", powerText(server.Power))
	line("Media", mediaText(server.Media))
	line("Infra-env", server.InfraEnvID)
	if s := server.System; s != nil {
		line("System", s.Title())
		line("BMC", strings.TrimSpace(s.BMCModel+" "+strings.TrimPrefix(s.BMCFirmware, s.BMCModel+" ")))
		line("MAC addresses", strings.Join(s.MACs, " "))
	}
	line("Activity", server.Activity)
	if server.Pending != nil {
		line("Queued action", string(server.Pending.Kind))
	}
	if server.Booted != nil && server.Booted.Host != nil {
		line("Host", server.Booted.Host.ID)
	}
	if !server.LastSeen.IsZero() {
		line("Last response", server.LastSeen.Local().Format(time.DateTime))
	}
	line("Error", troubleText(server))
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range server.History {
		if _, err := fmt.Fprintln(out, " ", note.At.Local().Format(time.DateTime), note.Message); err != nil {
			return err
		}
	}
	return nil
}

func newBMCImport() *cobra.Command {
	b := &bmcs{client: newClient()}
	dry := false
	cmd := b.command(&cobra.Command{
		Use: "import FILE.csv", Short: "Add the servers in a table", Args: cobra.ExactArgs(1),
		Long: "Add the servers in a table, separated by commas, semicolons or tabs (- is standard input). The " +
			"columns are name, address,\nusername, password, boot_mac, infra_env, skip_verify and boot_mode, in this " +
			"order or with a header row. The servers of valid\nrows are added. The command fails if any row is " +
			"invalid.",
	}, func(ctx context.Context, out io.Writer, arguments []string) error {
		file := io.Reader(os.Stdin)
		if arguments[0] != "-" {
			opened, err := os.Open(arguments[0])
			if err != nil {
				return fmt.Errorf("read the table: %w", err)
			}
			defer opened.Close()
			file = opened
		}
		imported := new(console.BMCImport)
		if err := b.send(ctx, http.MethodPost, fmt.Sprintf("%s/import?dry_run=%t", console.BMCsRoute, dry), "text/csv",
			file, imported); err != nil {
			return err
		}
		return b.writeImport(out, imported, dry)
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show which rows would be added and which are invalid")
	return cmd
}

func (b *bmcs) writeImport(out io.Writer, imported *console.BMCImport, dry bool) error {
	if b.asJSON {
		if err := writeJSON(out, imported); err != nil {
			return err
		}
	} else {
		for _, row := range imported.Rows {
			if row.Error != "" {
				fmt.Fprintf(out, "line %d: %s: %s\n", row.Line, row.Name, strings.ReplaceAll(row.Error, "\n", "; "))
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

func newBMCShow() *cobra.Command {
	b := &bmcs{client: newClient()}
	return b.command(&cobra.Command{Use: "show NAME", Short: "Show a server", Args: cobra.ExactArgs(1)},
		func(ctx context.Context, out io.Writer, arguments []string) error {
			return b.showAfter(ctx, out, http.MethodGet, bmcPath(arguments[0]), nil)
		})
}

func newBMCBoot() *cobra.Command {
	b := &bmcs{client: newClient()}
	var infraEnv string
	var force bool
	var wait time.Duration
	cmd := b.command(&cobra.Command{Use: "boot NAME", Short: "Boot a server now from its infra-env's image",
		Args: cobra.ExactArgs(1)}, func(ctx context.Context, out io.Writer, arguments []string) error {
		body := map[string]any{"infra_env_id": infraEnv, "force": force}
		if wait == 0 {
			return b.showAfter(ctx, out, http.MethodPost, bmcPath(arguments[0])+"/actions/boot", body)
		}
		ordered := new(bmc.Server)
		if err := b.call(ctx, http.MethodPost, bmcPath(arguments[0])+"/actions/boot", body, ordered); err != nil {
			return err
		}
		return b.await(ctx, out, ordered, wait)
	})
	cmd.Flags().BoolVar(&force, "force", false,
		"boot the server even if that ends the installation of its host, or takes it out of its cluster")
	cmd.Flags().StringVar(&infraEnv, "infra-env", "", "infra-env to boot instead of the server's own, by name or ID")
	cmd.Flags().DurationVar(&wait, "wait", 0,
		"time to wait until the server is powered on with the image, or the boot has failed")
	return cmd
}

// await waits until a server's boot is done, and prints new errors. It ends at an error that keeps
// the boot from beginning: the error was known before the order and occurred again, or the BMC has
// not accepted the server's credentials.
func (b *bmcs) await(ctx context.Context, out io.Writer, ordered *bmc.Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	server, printed := ordered, ordered.Error
	for {
		switch failed := server.Error; {
		case server.Pending == nil:
			if b.asJSON {
				return writeJSON(out, server)
			}
			return writeServer(out, server)
		case failed == nil:
		case server.PasswordRemoved:
			return bootError(server, "The boot has not begun")
		case sameError(failed, printed):
		case !server.CredentialsGood, sameType(failed, ordered.Error):
			return bootError(server, "The boot has not begun")
		default:
			printed = failed
			fmt.Fprintln(out, failed.Message)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		current := new(bmc.Server)
		err := b.call(ctx, http.MethodGet, bmcPath(ordered.ID), nil, current)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return bootError(server, fmt.Sprintf("The server was not booted within %s", timeout))
		case err != nil:
			return err
		}
		server = current
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

func sameType(a, b *bmc.ErrorStatus) bool { return a != nil && b != nil && a.Type == b.Type }

func sameError(a, b *bmc.ErrorStatus) bool { return sameType(a, b) && a.Count == b.Count }

func newBMCPower() *cobra.Command {
	b := &bmcs{client: newClient()}
	kinds := []string{"on", "off", "soft", "reset"}
	return b.command(&cobra.Command{
		Use: "power on|off|soft|reset NAME", Short: "Power a server on or off, shut it down, or restart it",
		Args: cobra.ExactArgs(2), ValidArgs: kinds,
	}, func(ctx context.Context, out io.Writer, arguments []string) error {
		if !slices.Contains(kinds, arguments[0]) {
			return usage("the power action %q is unknown; expected on, off, soft (the operating system shuts down) or "+
				"reset", arguments[0])
		}
		return b.showAfter(ctx, out, http.MethodPost, bmcPath(arguments[1])+"/actions/power",
			map[string]string{"action": arguments[0]})
	})
}

func newBMCEject() *cobra.Command {
	return newBMCAction("eject", "Eject the image from a server's virtual drives")
}
func newBMCInspect() *cobra.Command {
	return newBMCAction("inspect", "Read a server's inventory from its BMC again")
}

func newBMCAction(action, short string) *cobra.Command {
	b := &bmcs{client: newClient()}
	return b.command(&cobra.Command{Use: action + " NAME", Short: short, Args: cobra.ExactArgs(1)},
		func(ctx context.Context, out io.Writer, arguments []string) error {
			return b.showAfter(ctx, out, http.MethodPost, bmcPath(arguments[0])+"/actions/"+action, nil)
		})
}

func newBMCLog() *cobra.Command {
	b := &bmcs{client: newClient()}
	all := false
	cmd := b.command(&cobra.Command{Use: "log NAME", Short: "Show the request log of a server's BMC, without secrets",
		Args: cobra.ExactArgs(1)}, func(ctx context.Context, out io.Writer, arguments []string) error {
		var found struct {
			RequestLogs []bmc.RequestLog `json:"conversations"`
		}
		if err := b.call(ctx, http.MethodGet, bmcPath(arguments[0])+"/conversations", nil, &found); err != nil {
			return err
		}
		if logs := found.RequestLogs; !all && len(logs) > 1 {
			found.RequestLogs = logs[len(logs)-1:]
		}
		if b.asJSON {
			return writeJSON(out, found.RequestLogs)
		}
		for _, requestLog := range found.RequestLogs {
			writeRequestLog(out, requestLog)
		}
		return nil
	})
	cmd.Flags().BoolVar(&all, "all", false, "all stored sessions, not only the last")
	return cmd
}

func writeRequestLog(out io.Writer, c bmc.RequestLog) {
	fmt.Fprintf(out, "%s %s", c.Start.Local().Format(time.DateTime), c.Job)
	if c.Repeated > 0 {
		fmt.Fprintf(out, " (same error %d times before)", c.Repeated)
	}
	fmt.Fprintln(out)
	for _, e := range c.Exchanges {
		fmt.Fprintf(out, "  %s %s %s\n", e.At.Local().Format("15:04:05.000"), e.Method, e.Path)
		if e.Request != "" {
			fmt.Fprintf(out, "    > %s\n", e.Request)
		}
		response := e.Error
		if e.Status > 0 {
			response = fmt.Sprintf("%d %s", e.Status, strings.Join(e.ResponseHeaders, ", "))
		}
		fmt.Fprintf(out, "    < %s (%s)\n", response, e.Duration.Round(time.Millisecond))
		if e.Response != "" {
			fmt.Fprintf(out, "      %s\n", e.Response)
		}
	}
	if c.Error != "" {
		fmt.Fprintf(out, "  %s\n", c.Error)
	}
}

func newBMCRemove() *cobra.Command {
	b := &bmcs{client: newClient()}
	powerOff := false
	cmd := b.command(&cobra.Command{Use: "remove NAME", Short: "Remove a server", Args: cobra.ExactArgs(1)},
		func(ctx context.Context, _ io.Writer, arguments []string) error {
			return b.call(ctx, http.MethodDelete, fmt.Sprintf("%s?power_off=%t", bmcPath(arguments[0]), powerOff),
				nil, nil)
		})
	cmd.Flags().BoolVar(&powerOff, "power-off", false, "power the server off first")
	return cmd
}
