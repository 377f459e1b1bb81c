// Package trust has the commands for logins, contexts, accounts, tokens and sessions.
package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/fleet/membership"
	api "landfall/web/access"
	"landfall/web/console"
)

// Commands returns the commands. group makes a command the parent of others.
func Commands(group func(parent *cobra.Command, commands ...*cobra.Command)) []*cobra.Command {
	contexts := &cobra.Command{Use: "context", Short: "Show and choose the appliances that you have logged in to"}
	group(contexts, newContextList(), newContextUse(), newContextRemove())
	tokens := &cobra.Command{Use: "token", Short: "Create, list and revoke tokens of programs"}
	group(tokens, newTokenCreate(), newTokenList(), newTokenRevoke())
	users := &cobra.Command{Use: "user", Short: "Create, list and change accounts"}
	group(users, newUserCreate(), newUserList(), newUserSet(), newUserDelete(), newUserPassword(), newUserReset())
	sessions := &cobra.Command{Use: "session", Short: "List and end the sessions of people"}
	group(sessions, newSessionList(), newSessionEnd())
	return []*cobra.Command{newLogin(), newLogout(), contexts, tokens, users, sessions}
}

// login holds the options of landfall login.
type login struct {
	url, ca, context   string
	user, passwordFile string
	setupCode          string
	terminal           terminal
}

func newLogin() *cobra.Command {
	l := &login{}
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Log in to an appliance",
		Long: "Log in to an appliance, and store the login as a context for the following commands. With " +
			"--setup-code, the command makes\nthe first administrator; the code is in the file setup-code of the " +
			"appliance's data directory.\n\n" +
			"  landfall login https://192.0.2.10:8090 --ca ca.crt --setup-code setup-code --user ana " +
			"--password-file password\n\n" +
			"Without --ca, the command shows the fingerprint of the appliance's certificate authority and asks. " +
			"The appliance prints the\nfingerprint at its start. The login at a member of a fleet is one at all " +
			"members: if the member does not answer, the next\ncommands use another one.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				if l.url != "" {
					return outcome.Usagef("give the URL once: as an argument or with --url")
				}
				l.url = arguments[0]
			}
			l.terminal = terminal{cmd.InOrStdin(), cmd.ErrOrStderr()}
			return l.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.url, "url", "", "URL of the appliance; default: LANDFALL_URL, the current context, or "+
		remote.DefaultURL)
	flags.StringVar(&l.ca, "ca", "", "file with the appliance's certificate authority (ca.crt)")
	flags.StringVar(&l.setupCode, "setup-code", "", "file with the setup code: make the first administrator")
	flags.StringVar(&l.user, "user", "", "name of the account")
	flags.StringVar(&l.passwordFile, "password-file", "", "file with the password; - is standard input; "+
		"default: ask for it")
	flags.StringVar(&l.context, "context", "", "name of the stored context; default: the appliance's host and port")
	return cmd
}

func (l *login) run(ctx context.Context, out io.Writer) error {
	client := remote.New(l.url, l.ca)
	address, err := client.URL()
	if err != nil {
		return err
	}
	authority, err := l.trust(ctx, client, address)
	if err != nil {
		return err
	}
	if authority != "" {
		client = remote.Trusting(address, authority, l.ca)
	}
	if l.setupCode == "" {
		if err := requireAccount(ctx, client, address); err != nil {
			return err
		}
	}
	path, body, err := l.request()
	if err != nil {
		return err
	}
	var received api.Login
	if err := client.Anonymous().Call(ctx, http.MethodPost, path, body, &received); err != nil {
		return err
	}
	if received.Token == "" {
		return fmt.Errorf("%s answered without a token; check whether another service has this URL", address)
	}
	stored := remote.Context{URL: address, CA: authority, User: received.Name, Role: received.Role.String(),
		Token: received.Token, ExpiresAt: received.ExpiresAt}
	var fleet membership.Status
	err = client.As(received.Token).Call(ctx, http.MethodGet, console.FleetRoute, nil, &fleet)
	stored.SetMembers(fleet.URLs())
	// Without etcd, a member may not know all others.
	if err := l.store(stored, fleet.Problem == "" && (err == nil || isRefused(err))); err != nil {
		return err
	}
	fmt.Fprintf(out, "Logged in to %s as %s (%s) until %s.\n", address, received.Name, received.Role,
		formatTime(received.ExpiresAt))
	return nil
}

// requireAccount returns an error if nobody can log in yet, before it asks for a password.
func requireAccount(ctx context.Context, client *remote.Client, address string) error {
	var methods struct {
		Setup bool `json:"setup"`
	}
	if err := client.Anonymous().Call(ctx, http.MethodGet, api.BasePath+"/login", nil, &methods); err != nil {
		return err
	}
	if methods.Setup {
		return fmt.Errorf("%s has no account yet; make the first administrator with --setup-code FILE, the file "+
			"setup-code of the appliance's data directory", address)
	}
	return nil
}

// request returns the path and the body of the request, and asks for what the flags do not name.
func (l *login) request() (path string, body any, err error) {
	code, err := l.readSetupCode()
	if err != nil {
		return "", nil, err
	}
	sent := api.LoginRequest{Name: l.user, Kind: "token"}
	if sent.Name == "" {
		if sent.Name, err = l.terminal.ask("User: "); err != nil {
			return "", nil, fmt.Errorf("--user is missing: %w", err)
		}
	}
	if code != "" {
		sent.Password, err = l.terminal.newPassword(l.passwordFile)
		return api.BasePath + "/setup", api.SetupRequest{Code: code, LoginRequest: sent}, err
	}
	sent.Password, err = l.terminal.password(l.passwordFile, "Password: ")
	return api.BasePath + "/login", sent, err
}

// readSetupCode returns the setup code, or "" without --setup-code.
func (l *login) readSetupCode() (string, error) {
	if l.setupCode == "" {
		return "", nil
	}
	code, err := os.ReadFile(l.setupCode)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the file %s does not exist; if the appliance has an account already, log in without "+
			"--setup-code, otherwise name the file setup-code of its data directory, or a file with the printed code",
			l.setupCode)
	}
	if err != nil {
		return "", fmt.Errorf("read the setup code: %w; --setup-code names the file of the data directory", err)
	}
	return strings.TrimSpace(string(code)), nil
}

// isRefused reports whether the appliance does not list members, for example because it is an older
// one. The commands then use only the member of the login.
func isRefused(err error) bool {
	refused, ok := errors.AsType[*remote.RefusedError](err)
	return ok && refused.Status < http.StatusInternalServerError
}

// store stores the login as a context. It replaces an earlier context of the appliance. It keeps
// the stored members if the new list may be incomplete.
func (l *login) store(stored remote.Context, all bool) error {
	contexts, err := remote.LoadContexts()
	if err != nil {
		return err
	}
	if previous := contexts.ForURL(stored.URL); previous != nil {
		stored.Name, stored.CA = previous.Name, cmp.Or(stored.CA, previous.CA)
		if !all && len(previous.Members) > 0 {
			stored.SetMembers(append([]string{previous.URL}, previous.Members...))
		}
	}
	if stored.Name = cmp.Or(l.context, stored.Name); stored.Name == "" {
		stored.Name = hostOf(stored.URL)
	}
	contexts.Put(stored)
	return contexts.Save()
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

// trust returns the certificate authority to store with the context, in PEM, or "" if the context
// has it or none is needed.
func (l *login) trust(ctx context.Context, client *remote.Client, address string) (string, error) {
	named, err := client.AuthorityFile()
	if err != nil {
		return "", err
	}
	if named != "" {
		text, err := os.ReadFile(named)
		if err != nil {
			return "", fmt.Errorf("read the certificate authority: %w", err)
		}
		return string(text), nil
	}
	if !strings.HasPrefix(address, "https:") {
		return "", nil
	}
	unknown, err := client.Untrusted(ctx)
	if err != nil || !unknown {
		return "", err
	}
	authority, err := remote.FetchAuthority(ctx, address)
	if err != nil {
		return "", err
	}
	question := fmt.Sprintf("The certificate authority of %s has the SHA-256 fingerprint\n  %s\nDoes the appliance "+
		"show this fingerprint? (yes/no) ", address, authority.Fingerprint)
	answer, err := l.terminal.ask(question)
	if err != nil {
		return "", fmt.Errorf("the certificate authority of %s is unknown, and nobody can be asked; name its file "+
			"(ca.crt of the data directory) with --ca", address)
	}
	if answer != "yes" && answer != "y" {
		return "", errors.New("the certificate authority was not accepted, so nothing was sent; compare the " +
			"fingerprint with the one that the appliance prints at its start")
	}
	return authority.PEM, nil
}

func newLogout() *cobra.Command {
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "End the session at an appliance, and forget its token",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := client.URL()
			if err != nil {
				return err
			}
			contexts, err := remote.LoadContexts()
			if err != nil {
				return err
			}
			stored := contexts.ForURL(address)
			if stored == nil || stored.Token == "" {
				return fmt.Errorf("you are not logged in to %s; landfall context list shows your logins", address)
			}
			// the token is forgotten even if the appliance does not answer
			ended := client.As(stored.Token).Call(cmd.Context(), http.MethodPost, api.BasePath+"/logout", nil, nil)
			stored.Token, stored.ExpiresAt = "", time.Time{}
			if err := contexts.Save(); err != nil {
				return err
			}
			if ended != nil {
				return fmt.Errorf("the token is forgotten here, but the session goes on until it ends: %w", ended)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Logged out of %s.\n", address)
			return nil
		},
	}
	client.AddFlags(cmd.Flags())
	return cmd
}

func newContextList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the appliances that you have logged in to",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			contexts, err := remote.LoadContexts()
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "CURRENT\tNAME\tURL\tUSER\tROLE\tUNTIL")
			for _, one := range contexts.All {
				current, until := "", "logged out"
				if one.Name == contexts.Current {
					current = "*"
				}
				if one.Token != "" {
					until = formatTime(one.ExpiresAt)
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", current, one.Name, one.URL, one.User, one.Role, until)
			}
			return table.Flush()
		},
	}
}

// changeContexts returns the run function of a command that changes the context named by its
// argument.
func changeContexts(change func(*remote.Contexts, string)) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, arguments []string) error {
		contexts, err := remote.LoadContexts()
		if err != nil {
			return err
		}
		if contexts.Find(arguments[0]) == nil {
			return fmt.Errorf("the context %s does not exist; landfall context list shows all", arguments[0])
		}
		change(contexts, arguments[0])
		return contexts.Save()
	}
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the appliance for the following commands",
		Args:  cobra.ExactArgs(1),
		RunE:  changeContexts(func(contexts *remote.Contexts, name string) { contexts.Current = name }),
	}
}

func newContextRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget an appliance; its session goes on until it ends",
		Args:  cobra.ExactArgs(1),
		RunE:  changeContexts(func(contexts *remote.Contexts, name string) { contexts.Remove(name) }),
	}
}

// terminal asks the person at the terminal.
type terminal struct {
	in  io.Reader
	out io.Writer
}

var errNoTerminal = errors.New("nobody can be asked, because standard input is not a terminal")

// ask prints a question and returns the answer.
func (t terminal) ask(question string) (string, error) {
	if file, ok := t.in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return "", errNoTerminal
	}
	fmt.Fprint(t.out, question)
	var text []byte
	for one := make([]byte, 1); len(text) < 1000; {
		n, err := t.in.Read(one)
		if n == 0 || err != nil || one[0] == '\n' {
			break
		}
		text = append(text, one[0])
	}
	return strings.TrimSpace(string(text)), nil
}

// password returns the password in a file, or asks for it without showing it.
func (t terminal) password(file, question string) (string, error) {
	if file != "" {
		text, err := action.Read(t.in, file)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	text, asked, err := action.ReadHidden(t.in, t.out, question)
	if !asked {
		return "", fmt.Errorf("--password-file is missing: %w", errNoTerminal)
	}
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

// newPassword is like password, but asks twice.
func (t terminal) newPassword(file string) (string, error) {
	first, err := t.password(file, "New password: ")
	if err != nil || file != "" {
		return first, err
	}
	second, err := t.password("", "New password again: ")
	if err == nil && first != second {
		err = errors.New("the two passwords differ; nothing was changed")
	}
	return first, err
}

func formatTime(at time.Time) string { return output.OrDash(output.Time(at)) }

// scopeText returns a scope for a table.
func scopeText(clusters, infraEnvs []string) string {
	return cmp.Or(strings.Join(slices.Concat(clusters, infraEnvs), ","), "everything")
}
