package ams

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/ams"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/config"
	"landfall/appliance/sentence"
	"landfall/appliance/sitekey"
	"landfall/web/console"
)

func newExport() *cobra.Command {
	var out string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "export -o FILE",
		Short: "Write the waiting updates for AMS to a file that a courier carries to a connected machine",
		Long: "Write the waiting updates for AMS to a file that a courier carries to a connected machine. The file " +
			"is signed\nwith the site's key and contains no tokens and no pull secret. For the clusters in the file, " +
			"the appliance creates\nand deletes no subscriptions until the receipts are imported, the export is " +
			"revoked, or a week has passed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return outcome.Usagef("-o is missing; name the file to write")
			}
			w, finish, err := output.OpenFile(out, output.Shared, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			read, err := export(cmd, appliance, w)
			if err := finish(err); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Export %[2]s of site %[3]s contains %[1]d clusters.\n", len(read.Entries),
				read.Header.Export, read.Header.Site)
			return nil
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; - is standard output")
	return cmd
}

// export makes an export and writes it.
func export(cmd *cobra.Command, appliance *action.Action, w io.Writer) (*ams.CourierFile, error) {
	var file []byte
	if err := appliance.Call(cmd.Context(), http.MethodPost, console.AMSPath+"/exports", nil, &file); err != nil {
		return nil, err
	}
	read, err := ams.ReadCourier(bytes.NewReader(file), ams.Export, nil)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(file)
	return read, err
}

func newRevoke() *cobra.Command {
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "revoke EXPORT",
		Short: "Revoke an export whose courier does not return",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return appliance.Call(cmd.Context(), http.MethodDelete, console.AMSPath+"/exports/"+
				url.PathEscape(arguments[0]), nil, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	return cmd
}

func newImport() *cobra.Command {
	var trust string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "import RECEIPTS",
		Short: "Import the receipts that a courier brings back",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			text, err := os.ReadFile(arguments[0])
			if err != nil {
				return fmt.Errorf("read the receipts: %w", err)
			}
			var imported ams.Imported
			if err := appliance.Client.Send(cmd.Context(), http.MethodPost, console.AMSReceiptsRoute+"?trust="+
				url.QueryEscape(trust), "application/octet-stream", bytes.NewReader(text), &imported); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(),
				"%d clusters confirmed, %d still waiting, %d receipts already imported, %d need attention, %d "+
					"belong to unknown clusters.\n",
				imported.Applied, imported.Later, imported.Already, imported.Stopped, imported.Unknown)
			return nil
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&trust, "trust", "",
		"fingerprint of the pushing machine's key; required for the first import from that machine")
	return cmd
}

// pushCredentials are the credentials of the pushing machine.
type pushCredentials struct{ tokenFile, clientID, secretFile, ocmConfig string }

func newPush(version string) *cobra.Command {
	var given pushCredentials
	var progress, receipts, apiURL, tokenURL, proxy, caFile, site, account string
	cmd := &cobra.Command{
		Use:   "push FILE",
		Short: "On a connected machine: send the updates of a site's file to AMS, and write the receipts",
		Long: "On a connected machine: send the updates in a site's file to AMS with your own credentials, and write " +
			"the receipts\nnext to the file. An interrupted push can be repeated: it continues where it stopped and " +
			"sends nothing twice.\n\n" +
			"The first file of a site must be confirmed: enter yes after comparing the fingerprint of its key with " +
			"the output of\nlandfall ams status at the site, or name the fingerprint with --site. Credentials are " +
			"sent to the environments of OpenShift\nCluster Manager and to the URL in --url only, over https.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := ams.CheckTokenURL(tokenURL); err != nil {
				return err
			}
			directory, err := ownDirectory()
			if err != nil {
				return err
			}
			file, err := readExport(arguments[0], func(h ams.CourierHeader) error {
				if err := ams.CheckPushURL(h.APIURL, apiURL); err != nil {
					return err
				}
				return confirmSite(cmd, ams.NewKnownSites(directory), h.Site, site, !given.readsInput())
			})
			if err != nil {
				return err
			}
			key, err := sitekey.LoadOrCreate(directory)
			if err != nil {
				return err
			}
			secret, err := given.read(cmd)
			if err != nil {
				return err
			}
			api, err := pushClient(version, file.Header.APIURL, tokenURL, proxy, caFile, secret)
			if err != nil {
				return err
			}
			orElse(&progress, arguments[0]+".progress")
			orElse(&receipts, strings.TrimSuffix(arguments[0], ".lfc")+".receipts.lfc")
			fmt.Fprintf(cmd.OutOrStdout(), "Export %s of site %s for %s: %s.\n", file.Header.Export,
				file.Header.Site, file.Header.APIURL, sentence.Count(len(file.Entries), "cluster"))
			receiptFile, err := ams.Push(cmd.Context(), file, ams.PushOptions{
				Client: api, Clock: clockwork.NewRealClock(), Key: key, Progress: progress, Account: account,
				OnReceipt: func(done, all int, entry ams.CourierEntry) {
					fmt.Fprintf(cmd.OutOrStdout(), "%d/%d %s %s: %s %s\n", done, all, entry.ClusterID,
						entry.Desired.DisplayName, entry.Outcome, entry.Problem)
				},
			})
			if receiptFile == nil {
				return err
			}
			return errors.Join(err, writeReceipts(cmd.OutOrStdout(), receipts, key, *receiptFile))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&given.tokenFile, "token-file", "", "file with an offline token; - is standard input")
	flags.StringVar(&given.clientID, "client-id", "", "name of a service account")
	flags.StringVar(&given.secretFile, "client-secret-file", "",
		"file with the service account's secret; - is standard input")
	flags.StringVar(&given.ocmConfig, "ocm-config", "",
		"configuration file of the ocm command after ocm login; it is not changed")
	flags.StringVar(&progress, "progress", "", "file that records the progress of the push (default FILE.progress)")
	flags.StringVarP(&receipts, "output", "o", "", "file for the receipts (default FILE.receipts.lfc)")
	flags.StringVar(&apiURL, "url", "",
		"URL of AMS, if the site does not report to an environment of OpenShift Cluster Manager")
	flags.StringVar(&tokenURL, "token-url", config.Default().AMS.TokenURL,
		"URL at which credentials are exchanged for tokens")
	flags.StringVar(&proxy, "proxy", "", "URL of a proxy (default: HTTPS_PROXY)")
	flags.StringVar(&caFile, "ca-bundle", "", "additional CA certificates (PEM)")
	flags.StringVar(&site, "site", "",
		"fingerprint of the site's key; required for the first file of a site if nobody can answer a question")
	flags.StringVar(&account, "account", "",
		"user name of the owner of new subscriptions (default: the name in the file, or the user of the credentials)")
	return cmd
}

func orElse(value *string, otherwise string) {
	if *value == "" {
		*value = otherwise
	}
}

func pushClient(version, apiURL, tokenURL, proxy, caFile string, secret ams.Secret) (*ams.Client, error) {
	var ca []byte
	if caFile != "" {
		var err error
		if ca, err = os.ReadFile(caFile); err != nil {
			return nil, fmt.Errorf("read the certificates: %w", err)
		}
	}
	transport, err := ams.NewTransport(proxy, ca, ams.Limits{})
	if err != nil {
		return nil, err
	}
	return ams.NewClient(ams.ClientOptions{
		URL: apiURL, TokenURL: tokenURL, Transport: transport, Credentials: ams.NewFixed(secret),
		Rate:      1 / config.Default().AMS.CallInterval.Seconds(),
		UserAgent: "landfall/" + version, Clock: clockwork.NewRealClock(), Logger: slog.New(slog.DiscardHandler),
	}), nil
}

// readExport reads a site's file. accept decides about its header.
func readExport(path string, accept func(ams.CourierHeader) error) (*ams.CourierFile, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	file, err := ams.ReadCourier(in, ams.Export, accept)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	return file, nil
}

// confirmSite returns an error unless this machine knows the site with a fingerprint, or a person
// confirms it: with the same fingerprint in expected, or with an answer if mayAsk is true.
func confirmSite(cmd *cobra.Command, known *ams.KnownSites, site, expected string, mayAsk bool) error {
	if expected != "" && expected != site {
		return fmt.Errorf("the file is signed by the site with the key %s, not %s", site, expected)
	}
	isKnown, err := known.Contains(site)
	if err != nil || isKnown {
		return err
	}
	answer := ""
	if expected == "" && mayAsk {
		fmt.Fprintf(cmd.ErrOrStderr(), "No file of the site with the key\n  %s\nwas pushed on this machine before. "+
			"Does landfall ams status show this key at the site? Enter yes: ", site)
		answer, err = bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the answer: %w", err)
		}
	}
	if expected == "" && strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("nothing was sent, because the site's key is not known on this machine; compare it with the "+
			"output of landfall ams status at the site, and push with --site %s", site)
	}
	return known.Add(site)
}

// readsInput reports whether the credentials come from standard input.
func (p pushCredentials) readsInput() bool { return p.tokenFile == "-" || p.secretFile == "-" }

func (p pushCredentials) read(cmd *cobra.Command) (ams.Secret, error) {
	switch {
	case p.ocmConfig != "":
		return readOCM(p.ocmConfig)
	case p.tokenFile != "":
		token, err := readSecret(cmd, p.tokenFile, "Offline token: ")
		return ams.Secret{OfflineToken: token}, err
	case p.clientID != "" && p.secretFile != "":
		secret, err := readSecret(cmd, p.secretFile, "Client secret: ")
		return ams.Secret{ClientID: p.clientID, ClientSecret: secret}, err
	}
	return ams.Secret{},
		outcome.Usagef("the credentials are missing; give --token-file, --client-id with --client-secret-file, or " +
			"--ocm-config")
}

// readOCM reads the credentials in the ocm command's file (ocm-cli, pkg/config).
func readOCM(path string) (ams.Secret, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ams.Secret{}, fmt.Errorf("read the login of ocm: %w", err)
	}
	var config struct {
		RefreshToken string `json:"refresh_token"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return ams.Secret{}, fmt.Errorf("%s is not a configuration file of the ocm command: %w", path, err)
	}
	secret := ams.Secret{OfflineToken: config.RefreshToken, ClientSecret: config.ClientSecret}
	if config.ClientSecret != "" {
		secret = ams.Secret{ClientID: config.ClientID, ClientSecret: config.ClientSecret}
	}
	if secret.Empty() {
		return secret, fmt.Errorf("%s contains no login; run ocm login first", path)
	}
	return secret, nil
}

// ownDirectory returns the directory with this machine's key, which signs receipts, and the known
// sites. It creates the directory at the first use.
func ownDirectory() (string, error) {
	directory, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the directory for this machine's key: %w", err)
	}
	directory = filepath.Join(directory, "landfall")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", fmt.Errorf("create the directory for this machine's key: %w", err)
	}
	return directory, nil
}

func writeReceipts(out io.Writer, path string, key *sitekey.Key, receipts ams.CourierFile) error {
	w, finish, err := output.OpenFile(path, output.Shared, out)
	if err != nil {
		return err
	}
	if err := finish(ams.WriteCourier(w, key, receipts)); err != nil {
		return err
	}
	fmt.Fprintf(out, "The receipts are in %s, signed by %s.\n", path, key.Public().Fingerprint())
	return nil
}
