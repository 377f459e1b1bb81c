package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/fleet"
	"landfall/appliance/keyring"
	"landfall/appliance/process"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/seal"
	api "landfall/web/access"
)

const usersPath = api.BasePath + "/users"

func newUserList() *cobra.Command {
	return newList("List the accounts", usersPath, "NAME\tROLE\tSCOPE\tSTATE\tLAST LOGIN", func(u api.User) string {
		state := cmp.Or(u.Issuer, "enabled")
		if u.Disabled {
			state = "disabled"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", u.Name, u.Role, scopeText(u.Clusters, u.InfraEnvs), state,
			formatTime(u.LastLogin))
	})
}

func newUserCreate() *cobra.Command {
	var wanted api.NewUser
	var role, passwordFile string
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "create NAME --role viewer|operator|admin",
		Short: "Create an account",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			wanted.Name = arguments[0]
			if wanted.Role, err = parseRole(role); err != nil {
				return err
			}
			if err := resolveScope(cmd.Context(), client, wanted.Clusters, wanted.InfraEnvs); err != nil {
				return err
			}
			wanted.Password, err = terminal{cmd.InOrStdin(), cmd.ErrOrStderr()}.newPassword(passwordFile)
			if err != nil {
				return err
			}
			if err := client.Call(cmd.Context(), http.MethodPost, usersPath, wanted, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The account %s exists.\n", arguments[0])
			return nil
		},
	}
	client.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	addScopeFlags(cmd.Flags(), "account", &wanted.Clusters, &wanted.InfraEnvs)
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "file with the password; - is standard input; "+
		"default: ask for it")
	return cmd
}

// addScopeFlags adds the flags that limit an account or a token.
func addScopeFlags(flags *pflag.FlagSet, limited string, clusters, infraEnvs *[]string) {
	flags.StringSliceVar(clusters, "cluster", nil, "limit the "+limited+
		" to this cluster (ID or name); may be repeated")
	flags.StringSliceVar(infraEnvs, "infra-env", nil, "limit the "+limited+" to this infra-env (ID or name); may be "+
		"repeated")
}

// resolveScope replaces the names in a scope with IDs.
func resolveScope(ctx context.Context, client *remote.Client, clusters, infraEnvs []string) (err error) {
	for i, wanted := range clusters {
		if clusters[i], err = client.ClusterID(ctx, wanted); err != nil {
			return err
		}
	}
	for i, wanted := range infraEnvs {
		if infraEnvs[i], err = client.InfraEnvID(ctx, wanted); err != nil {
			return err
		}
	}
	return nil
}

func newUserSet() *cobra.Command {
	var clusters, infraEnvs []string
	var role string
	var disable, enable, everything bool
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change the role or the scope of an account, or disable it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			var change api.UserChange
			if role != "" {
				parsed, err := parseRole(role)
				if err != nil {
					return err
				}
				change.Role = &parsed
			}
			limited := len(clusters)+len(infraEnvs) > 0
			switch {
			case disable && enable || everything && limited:
				return outcome.Usagef("the flags contradict each other; give --disable or --enable, and --everything " +
					"or a scope")
			case everything || limited:
				change.Clusters, change.InfraEnvs = notNull(clusters), notNull(infraEnvs)
			}
			if disable || enable {
				change.Disabled = &disable
			}
			if change == (api.UserChange{}) {
				return outcome.Usagef("nothing to change; give --role, --cluster, --infra-env, --everything, " +
					"--disable or --enable")
			}
			if change.Clusters != nil {
				if err := resolveScope(cmd.Context(), client, *change.Clusters, *change.InfraEnvs); err != nil {
					return err
				}
			}
			return client.Call(cmd.Context(), http.MethodPatch, usersPath+"/"+url.PathEscape(arguments[0]), change, nil)
		},
	}
	client.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "viewer, operator or admin")
	addScopeFlags(flags, "account", &clusters, &infraEnvs)
	flags.BoolVar(&everything, "everything", false, "remove the limit to clusters and infra-envs")
	flags.BoolVar(&disable, "disable", false, "let the account log in no more, and end its sessions")
	flags.BoolVar(&enable, "enable", false, "let the account log in again")
	return cmd
}

// notNull returns a list that is [] in JSON if it is empty, because null changes nothing.
func notNull(list []string) *[]string {
	copied := slices.Concat([]string{}, list)
	return &copied
}

func newUserDelete() *cobra.Command {
	return newDelete("delete NAME", "Delete an account", usersPath, "The account %s is deleted, and its sessions end.",
		"The account %s is deleted.\n")
}

func newUserPassword() *cobra.Command {
	var oldFile, newFile string
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "password NAME",
		Short: "Set the password of your account; administrators set that of any account",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			if oldFile == "-" && newFile == "-" {
				return outcome.Usagef("only one of --old-password-file and --password-file can be standard input")
			}
			ask := terminal{cmd.InOrStdin(), cmd.ErrOrStderr()}
			var caller api.Whoami
			if err := client.Call(cmd.Context(), http.MethodGet, api.BasePath+"/whoami", nil, &caller); err != nil {
				return err
			}
			var change api.PasswordChange
			// The appliance refuses a wrong name.
			if name, err := access.ParseName(arguments[0]); err == nil && caller.Kind == access.Person &&
				caller.Name == name {
				if change.Old, err = ask.password(oldFile, "Present password: "); err != nil {
					return err
				}
			}
			if change.New, err = ask.newPassword(newFile); err != nil {
				return err
			}
			return client.Call(cmd.Context(), http.MethodPut, usersPath+"/"+url.PathEscape(arguments[0])+"/password",
				change, nil)
		},
	}
	client.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&oldFile, "old-password-file", "", "file with the present password; - is standard input; "+
		"default: ask for it")
	cmd.Flags().StringVar(&newFile, "password-file", "", "file with the new password; - is standard input; "+
		"default: ask for it")
	return cmd
}

func newUserReset() *cobra.Command {
	var passwordFile, dataDir string
	client := new(remote.Client)
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "On the appliance's machine: make NAME an administrator with a new password",
		Long: "Make an account an administrator with a new password, on the appliance's machine, as root or as the " +
			"user of the\nappliance. The appliance may run or be stopped. The account is created if it does not exist.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			password, err := terminal{cmd.InOrStdin(), cmd.ErrOrStderr()}.newPassword(passwordFile)
			if err != nil {
				return err
			}
			return reset(cmd.Context(), client, dataDir, arguments[0], password, cmd.OutOrStdout())
		},
	}
	client.AddFlagsOf(&dataDir, cmd.Flags())
	cmd.Flags().StringVar(&dataDir, "data-dir", cmp.Or(os.Getenv(config.EnvPrefix+"DATA_DIR"),
		config.Default().DataDir), "the appliance's data directory")
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "file with the new password; - is standard input; "+
		"default: ask for it")
	return cmd
}

// reset resets an account: in the data directory, or through a running appliance with a new setup
// code.
func reset(ctx context.Context, client *remote.Client, dir, name, password string, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); err != nil {
		return fmt.Errorf("%s is not the data directory of an appliance (%w); check --data-dir", dir, err)
	}
	if err := process.BecomeOwner(dir, keyring.FromEnvironment().Files()...); err != nil {
		return err
	}
	err := store.CheckFree(dir)
	if _, held := errors.AsType[*store.HeldError](err); held {
		err = resetRunning(ctx, client, dir, name, password)
	} else if err == nil {
		err = resetStopped(ctx, dir, name, password)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The account %s is an administrator with the new password.\n", name)
	return nil
}

func resetRunning(ctx context.Context, client *remote.Client, dir, name, password string) error {
	code, err := people.WriteCode(dir, time.Now())
	if err != nil {
		return err
	}
	err = client.Anonymous().Call(ctx, http.MethodPost, api.BasePath+"/setup",
		api.SetupRequest{Code: code,
			LoginRequest: api.LoginRequest{Name: name, Password: password, Kind: "token"}}, nil)
	if err != nil {
		return errors.Join(notOf(dir, client, err), people.RemoveCode(dir))
	}
	return nil
}

// notOf returns the error of a request with the setup code of a data directory. An appliance that
// has another code (401) or none (404) has another directory.
func notOf(dir string, client *remote.Client, err error) error {
	refused, ok := errors.AsType[*remote.RefusedError](err)
	lacks := ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusNotFound)
	if at, open := client.URL(); lacks && open == nil {
		return fmt.Errorf("the appliance at %s has another data directory than %s; give the URL of the appliance that "+
			"runs with %[2]s with --url", at, dir)
	}
	return err
}

// resetStopped changes the account in the data directory, with a record in the audit trail.
func resetStopped(ctx context.Context, dir, name, password string) (err error) {
	if err := errors.Join(dataversion.Check(dir), fleet.CheckAlone(dir)); err != nil {
		return err
	}
	keys := keyring.New(dir, keyring.FromEnvironment())
	db, err := store.Open(ctx, dir, store.Options{Keys: func(sealed bool) (*seal.Ring, error) {
		if !sealed {
			return nil, nil // the next start of the appliance seals it
		}
		return keys.Open(sealed)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key, err := sitekey.LoadSealed(dir, keys.Ring())
	if err != nil {
		return err
	}
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), Key: key, DB: db,
		Member: fleet.SingleTrail(dir)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trail.Close()) }()
	ctx = access.With(ctx, access.Identity{Kind: access.Appliance, Name: "landfall user reset"})
	end, err := trail.Begin(ctx, audittrail.Entry{Operation: "resetUser", Objects: map[string]string{"name": name}})
	if err != nil {
		return err
	}
	status := http.StatusInternalServerError
	defer func() { end(status, nil) }()
	accounts, err := people.New(people.Options{DB: db, Clock: clockwork.NewRealClock(), Dir: dir})
	if err != nil {
		return err
	}
	if _, err := accounts.ResetAdministrator(ctx, name, password); err != nil {
		return err
	}
	status = http.StatusOK
	return nil
}
