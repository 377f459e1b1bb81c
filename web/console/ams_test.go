package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/ams/outbox"
	"landfall/web"
)

// otherCommands are those that the tests do not send.
type otherCommands interface{ Subscriptions }

// orders records who requested the commands on clusters.
type orders struct {
	otherCommands
	by []string
}

func (o *orders) Retry(_ context.Context, _, by string) error {
	o.by = append(o.by, by)
	return nil
}

func (o *orders) Accept(context.Context) error   { return nil }
func (o *orders) Reverify(context.Context) error { return nil }

func (o *orders) CreateAgain(context.Context, string, string) error { return nil }
func (o *orders) Leave(context.Context, string, string) error       { return nil }

func (o *orders) Edit(_ context.Context, _, by string, _ outbox.Fields) error {
	o.by = append(o.by, by)
	return nil
}

func TestAMSOrder_namesWhoSentIt(t *testing.T) {
	for name, test := range map[string]struct {
		identity access.Identity
		body     string
		want     string
	}{
		"a person":                  {access.Identity{Kind: access.Person, Name: "ana"}, `{"by":"The Director"}`, "ana"},
		"a program":                 {access.Identity{Kind: access.Program, Name: "ci"}, `{"by":"ana"}`, "program ci"},
		"anybody":                   {access.Identity{Kind: access.Open}, `{"by":"Ann"}`, "Ann"},
		"anybody, who says no name": {access.Identity{Kind: access.Open}, `{}`, "Somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			site, server := &orders{}, web.New(web.Options{})
			require.NoError(t, server.Register(AMSOperations(site, false)...))
			test.identity.Role = access.Administrator
			for _, command := range []string{"retry", "edit"} {
				request := httptest.NewRequest(http.MethodPost, AMSPath+"/clusters/c/"+command,
					strings.NewReader(test.body))
				request.Header.Set("Content-Type", "application/json")
				recorder := httptest.NewRecorder()
				server.ServeHTTP(recorder, request.WithContext(access.With(t.Context(), test.identity)))
				require.Equal(t, http.StatusNoContent, recorder.Code, recorder.Body.String())
			}
			require.Equal(t, []string{test.want, test.want}, site.by)
		})
	}
}
