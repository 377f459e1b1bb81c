package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/notice"
	"landfall/web/console"
)

// newWebhooks returns the commands on webhooks.
func newWebhooks(group func(parent *cobra.Command, commands ...*cobra.Command)) *cobra.Command {
	all := &cobra.Command{
		Use: "webhook", Short: "Send a message when something is installed, has failed or needs a person",
		Long: "Manage the webhooks of the site. The appliance sends a JSON document to each of them when a cluster " +
			"or host was installed, has failed\nor needs a person, and when a server, the disk of the data directory " +
			"or the mirror needs a person. It repeats a message for 7 days until\nthe receiver takes it. The " +
			"headers, and the signature with the secret, are those of https://www.standardwebhooks.com.",
	}
	group(all, newWebhookList(), newWebhookAdd(), newWebhookRemove(), newWebhookTest())
	return all
}

func webhookPath(name string) string { return console.WebhooksRoute + "/" + url.PathEscape(name) }

func webhookKind() *output.Kind[notice.Webhook] {
	type column = output.Column[notice.Webhook]
	return &output.Kind[notice.Webhook]{
		Name: "webhook", Empty: "No webhooks. Add one with landfall settings webhook add.",
		NameOf: func(w *notice.Webhook) string { return w.Name },
		Columns: []column{
			{Title: "NAME", Value: func(w *notice.Webhook) string { return w.Name }},
			{Title: "URL", Value: func(w *notice.Webhook) string { return w.URL }},
			{Title: "DELIVERED", Value: func(w *notice.Webhook) string {
				if w.Delivered == nil {
					return ""
				}
				return output.Time(*w.Delivered)
			}},
			{Title: "PENDING", Value: func(w *notice.Webhook) string { return strconv.Itoa(w.Pending) }},
			{Title: "PROBLEM", Value: func(w *notice.Webhook) string { return w.Problem }},
			{Title: "ADDED BY", Wide: true, Value: func(w *notice.Webhook) string { return w.By }},
		},
	}
}

func newWebhookList() *cobra.Command {
	a := action.New()
	return a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return action.List(cmd, a, webhookKind(), func() (json.RawMessage, error) {
				var found struct {
					Webhooks json.RawMessage `json:"webhooks"`
				}
				err := a.Call(cmd.Context(), http.MethodGet, console.WebhooksRoute, nil, &found)
				return found.Webhooks, err
			}, "webhooks")
		},
	})
}

func newWebhookAdd() *cobra.Command {
	a := action.New()
	var urlFile, secretFile string
	cmd := a.Changing(&cobra.Command{
		Use: "add NAME URL", Short: "Add a webhook",
		Long: "Add a webhook. Without --secret-file, the appliance creates the secret and shows it once. URLs of " +
			"chat systems contain a secret, too:\n--url-file keeps them out of the list of processes. A file named - " +
			"is standard input.",
		Example: "  landfall settings webhook add chat https://chat.example.com/hooks/1\n" +
			"  landfall settings webhook add chat --url-file url.txt --secret-file secret.txt",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			body := action.Object{"name": arguments[0]}
			switch {
			case len(arguments) == 2 && urlFile == "":
				body["url"] = arguments[1]
			case len(arguments) == 1 && urlFile != "":
				content, err := readFile(cmd, urlFile)
				if err != nil {
					return err
				}
				body["url"] = strings.TrimSpace(*content)
			default:
				return fmt.Errorf("give the URL of the webhook, either after its name or with --url-file")
			}
			if secretFile != "" {
				content, err := readFile(cmd, secretFile)
				if err != nil {
					return err
				}
				body["secret"] = strings.TrimSpace(*content)
			}
			answer, err := a.Send(cmd, http.MethodPost, console.WebhooksRoute, body)
			if answer == nil || err != nil {
				return err
			}
			added := new(notice.Added)
			if err := json.Unmarshal(answer, added); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			return a.Format.Document(cmd.OutOrStdout(), "webhook", added.Name, added, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%s: added\n", added.Name)
				if added.Secret != "" {
					_, err = fmt.Fprintf(out, "The secret for the receiver, which is not shown again: %s\n",
						added.Secret)
				}
				return err
			})
		},
	})
	a.Format.AddFlag(cmd)
	cmd.Flags().StringVar(&urlFile, "url-file", "", "file with the URL")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret for the signature")
	return cmd
}

func newWebhookRemove() *cobra.Command {
	a := action.New()
	return a.Removing(&cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm", "delete"}, Short: "Remove a webhook", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			name := arguments[0]
			if err := a.Confirm(cmd, name, "The webhook "+name+" and the messages that it has not received are "+
				"removed."); err != nil {
				return err
			}
			answer, err := a.Send(cmd, http.MethodDelete, webhookPath(name), nil)
			if answer == nil || err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: removed\n", name)
			return err
		},
	})
}

func newWebhookTest() *cobra.Command {
	a := action.New()
	return a.Changing(&cobra.Command{
		Use: "test NAME", Short: "Send a test message to a webhook", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			answer, err := a.Send(cmd, http.MethodPost, webhookPath(arguments[0])+"/test", nil)
			if answer == nil || err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the receiver took the test message\n", arguments[0])
			return err
		},
	})
}
