package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/notice"
	"landfall/web/operation"
	"landfall/web/recording"
)

// Routes of the notifications and of the webhooks that receive them.
const (
	NotificationsRoute = BasePath + "/notifications"
	WebhooksRoute      = SettingsRoute + "/webhooks"
)

// Notices lists notifications and manages webhooks.
type Notices interface {
	// List returns the newest notifications of the clusters that wanted selects.
	List(wanted func(cluster string) bool) ([]*notice.Notification, error)
	// Webhooks returns the webhooks without their secrets.
	Webhooks() ([]notice.Webhook, error)
	// Add adds a webhook. The answer holds the secret that the appliance created.
	Add(ctx context.Context, wanted notice.NewWebhook) (*notice.Added, error)
	Remove(ctx context.Context, name string) error
	// Try sends a test notification.
	Try(ctx context.Context, name string) error
}

// NoticeOperations returns the operations on notifications and webhooks.
func NoticeOperations(of Notices) []operation.Operation {
	n := notices{of}
	return []operation.Operation{
		{ID: "listNotifications", Method: http.MethodGet, Path: NotificationsRoute,
			Access: operation.For(access.Viewer).OfOwn(), Handler: n.list, FromCopy: true,
			Summary: "List the newest notifications: what was installed, failed or needs a person",
			Status:  http.StatusOK, Answer: map[string][]notice.Notification{}},
		{ID: "listWebhooks", Method: http.MethodGet, Path: WebhooksRoute,
			Access: operation.For(access.Viewer).OfAll(), Handler: n.webhooks, FromCopy: true,
			Summary: "List the webhooks of the site, without secrets",
			Status:  http.StatusOK, Answer: map[string][]notice.Webhook{}},
		{ID: "addWebhook", Method: http.MethodPost, Path: WebhooksRoute,
			Access: operation.For(access.Administrator), Handler: n.add, DryRun: true,
			Summary: "Add a webhook; without a secret the appliance creates one and shows it once",
			Body:    notice.NewWebhook{},
			Status:  http.StatusCreated, Answer: notice.Added{}, Errors: []int{400, 409}},
		{ID: "removeWebhook", Method: http.MethodDelete, Path: WebhooksRoute + "/:name",
			Access: operation.For(access.Administrator), Handler: n.remove, DryRun: true,
			Summary: "Remove a webhook and the notifications that it has not received",
			Status:  http.StatusNoContent, Errors: []int{404}},
		{ID: "testWebhook", Method: http.MethodPost, Path: WebhooksRoute + "/:name/test",
			Access: operation.For(access.Administrator), Handler: n.test,
			Summary: "Send a test notification to a webhook, without retries",
			Status:  http.StatusNoContent, Errors: []int{404, 503}},
	}
}

type notices struct{ of Notices }

func (n notices) list(c echo.Context) error {
	scope := access.From(c.Request().Context()).Scope
	list, err := n.of.List(func(cluster string) bool {
		return !scope.Limited() || cluster != "" && scope.Cluster(cluster)
	})
	return answer(c, map[string]any{"notifications": list}, err)
}

func (n notices) webhooks(c echo.Context) error {
	list, err := n.of.Webhooks()
	return answer(c, map[string]any{"webhooks": list}, err)
}

func (n notices) add(c echo.Context) error {
	var wanted notice.NewWebhook
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	added, err := n.of.Add(c.Request().Context(), wanted)
	if err == nil {
		recording.Created(c.Request().Context(), "webhook", added.Name)
	}
	return answerWith(c, http.StatusCreated, added, err)
}

func (n notices) remove(c echo.Context) error {
	return done(c, n.of.Remove(c.Request().Context(), c.Param("name")))
}

func (n notices) test(c echo.Context) error {
	return done(c, n.of.Try(c.Request().Context(), c.Param("name")))
}
