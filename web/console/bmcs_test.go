package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/store"
	"landfall/web"
)

// servers is a manager without running workers: actions stay queued.
type servers struct{ *bmc.Manager }

func (servers) InfraEnv(name string) (string, error) {
	if name == "" || name == "i-1" {
		return name, nil
	}
	return "", &bmc.RequestError{Field: "infra_env_id", Reason: "There is no infra-env \"" + name + "\"."}
}

// hostOfServer implements bmc.Site with one host or none.
type hostOfServer struct{ host *bmc.Host }

func (hostOfServer) ImageURL(context.Context, string, string) (string, error) { return "", nil }

func (s hostOfServer) Hosts(fn func(bmc.Host) error) error {
	if s.host == nil {
		return nil
	}
	return fn(*s.host)
}

func (hostOfServer) Host(bmc.HostRef) (bmc.Host, bool, error) { return bmc.Host{}, false, nil }

func (hostOfServer) ClusterName(string) (string, error) { return "berlin", nil }

func newBMCSite(t *testing.T) (*bmc.Manager, func(method, path, body string) *httptest.ResponseRecorder) {
	return newBMCSiteOf(t, hostOfServer{})
}

func newBMCSiteOf(t *testing.T, site bmc.Site) (*bmc.Manager,
	func(method, path, body string) *httptest.ResponseRecorder) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	manager := bmc.New(bmc.Options{DB: db, Site: site})
	server := web.New(web.Options{})
	require.NoError(t, server.Register(BMCOperations(servers{manager})...))
	return manager, func(method, path, body string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(method, BMCsRoute+path, strings.NewReader(body)))
		return recorder
	}
}

const bmcBody = `{"name": "n1", "address": "redfish://192.0.2.7", "username": "root", "password": "hunter2", "infra_env_id": "i-1"}`

func TestServers_addChangeRemove(t *testing.T) {
	_, send := newBMCSite(t)
	response := send(http.MethodPost, "", bmcBody)
	require.Equal(t, http.StatusCreated, response.Code, response.Body)
	require.NotContains(t, response.Body.String(), "hunter2")
	var made bmc.Server
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &made))
	require.Equal(t, BMCsRoute+"/"+made.ID, response.Header().Get("Location"))
	require.Equal(t, bmc.Registering, made.State)

	for _, name := range []string{made.ID, "n1"} {
		require.Equal(t, http.StatusOK, send(http.MethodGet, "/"+name, "").Code)
	}
	response = send(http.MethodPatch, "/n1", `{"name": "rack/n1", "boot_mac": "52-54-00-00-00-01"}`)
	require.Equal(t, http.StatusOK, response.Code, response.Body)
	require.Contains(t, response.Body.String(), `"boot_mac":"52:54:00:00:00:01"`)
	require.Equal(t, http.StatusOK, send(http.MethodGet, "/rack%2Fn1", "").Code)
	for path, body := range map[string]string{
		"/actions/boot": "", "/actions/power": `{"action": "off"}`, "/actions/eject": "", "/actions/inspect": "{}",
	} {
		response = send(http.MethodPost, "/"+made.ID+path, body)
		require.Equal(t, http.StatusAccepted, response.Code, "%s: %s", path, response.Body)
		require.Contains(t, response.Body.String(), `"pending":{"kind":`)
	}
	response = send(http.MethodGet, "/"+made.ID+"/conversations", "")
	require.JSONEq(t, `{"conversations": []}`, response.Body.String())
	require.Contains(t, send(http.MethodGet, "", "").Body.String(), `"name":"rack/n1"`)
	require.Equal(t, http.StatusAccepted, send(http.MethodDelete, "/"+made.ID+"?power_off=true", "").Code)
	require.Contains(t, send(http.MethodGet, "/"+made.ID, "").Body.String(), `"state":"deleting"`)
}

func TestServers_invalidRequests(t *testing.T) {
	manager, send := newBMCSite(t)
	require.Equal(t, http.StatusCreated, send(http.MethodPost, "", bmcBody).Code)
	_, err := manager.Ensure(context.Background(), "owned", bmc.Desired{Name: "site/n2", Owner: "BareMetalHost site/n2",
		Address: "redfish://192.0.2.8", Username: "root", Password: "x"})
	require.NoError(t, err)
	_, err = manager.Ensure(context.Background(), "away", bmc.Desired{Name: "away", Address: "redfish://192.0.2.9",
		Username: "root", Password: "x", Detached: true})
	require.NoError(t, err)
	for _, c := range []struct {
		method, path, body string
		status             int
		sentence           string
	}{
		{http.MethodPost, "", bmcBody, http.StatusConflict, "A server with the name n1 already exists"},
		{http.MethodPost, "", strings.Replace(bmcBody, `"n1"`, `"n2"`, 1), http.StatusConflict,
			"The server n2 would be the same machine as the server n1"},
		{http.MethodPatch, "/away", `{"address": "redfish://192.0.2.7"}`, http.StatusConflict,
			"The server away would be the same machine as the server n1"},
		{http.MethodPost, "", `{}`, http.StatusBadRequest, "The name \\\"\\\" of the server is invalid"},
		{http.MethodPost, "", `{"nmae": "n1"}`, http.StatusBadRequest, "unknown field"},
		{http.MethodPost, "", strings.Replace(bmcBody, "redfish:", "ipmi:", 1), http.StatusBadRequest,
			"has the scheme ipmi, which is not supported"},
		{http.MethodPost, "", strings.Replace(bmcBody, "i-1", "i-9", 1), http.StatusBadRequest,
			"There is no infra-env"},
		{http.MethodGet, "/n9", "", http.StatusNotFound, "There is no BMC n9"},
		{http.MethodGet, "/n9/conversations", "", http.StatusNotFound, "There is no BMC n9"},
		{http.MethodPatch, "/n9", "{}", http.StatusNotFound, "There is no BMC n9"},
		{http.MethodPatch, "/n1", `{"password": ""}`, http.StatusBadRequest,
			"The password for the BMC of n1 is missing"},
		{http.MethodPatch, "/n1", `{"boot_mode": "fast"}`, http.StatusBadRequest, "The boot mode"},
		{http.MethodPatch, "/n1", `[]`, http.StatusBadRequest, "not the JSON object"},
		{http.MethodPatch, "/owned", `{"name": "x"}`, http.StatusConflict,
			"is managed by BareMetalHost site/n2; change or delete that object"},
		{http.MethodDelete, "/owned", "", http.StatusConflict, "is managed by BareMetalHost site/n2"},
		{http.MethodDelete, "/n1?power_off=perhaps", "", http.StatusBadRequest, "power_off is"},
		{http.MethodPost, "/n1/actions/boot", `{"infra_env_id": "i-9"}`, http.StatusBadRequest,
			"There is no infra-env"},
		{http.MethodPost, "/owned/actions/boot", ``, http.StatusBadRequest,
			"The server site/n2 has no image to boot"},
		{http.MethodPost, "/n1/actions/power", `{"action": "explode"}`, http.StatusBadRequest,
			"expected on, off, soft or reset"},
		{http.MethodPost, "/away/actions/eject", ``, http.StatusConflict, "is detached"},
		{http.MethodPost, "/import", "", http.StatusBadRequest, "The table has no rows"},
	} {
		response := send(c.method, c.path, c.body)
		require.Equal(t, c.status, response.Code, "%s %s: %s", c.method, c.path, response.Body)
		require.Contains(t, response.Body.String(), c.sentence)
	}
}

func TestServers_importTable(t *testing.T) {
	_, send := newBMCSite(t)
	require.Equal(t, http.StatusCreated, send(http.MethodPost, "", bmcBody).Code)
	table := "name,address,username,password,infra_env\nn1,192.0.2.7,root,x,\nn2,192.0.2.8,root,x,i-1\nn3,192.0.2.9,root,x,i-9\nn4,,root,x,\n"
	var dry, imported BMCImport
	for _, query := range []string{"?dry_run=true", "?dry_run=1"} {
		require.NoError(t, json.Unmarshal(send(http.MethodPost, "/import"+query, table).Body.Bytes(), &dry))
		require.Equal(t, 1, dry.Added)
	}
	require.Equal(t, http.StatusBadRequest, send(http.MethodPost, "/import?dry_run=yes", table).Code)
	require.Equal(t, http.StatusNotFound, send(http.MethodGet, "/n2", "").Code)
	require.NoError(t, json.Unmarshal(send(http.MethodPost, "/import", table).Body.Bytes(), &imported))
	require.Equal(t, 1, imported.Added)
	require.Equal(t, 3, imported.Failed)
	require.Contains(t, imported.Rows[0].Error, "A server with the name n1 already exists")
	require.NotEmpty(t, imported.Rows[1].ID)
	require.Contains(t, imported.Rows[2].Error, `There is no infra-env "i-9"`)
	require.Equal(t, 5, imported.Rows[3].Line)
	require.Contains(t, imported.Rows[3].Error, "address is empty")
	require.Equal(t, http.StatusOK, send(http.MethodGet, "/n2", "").Code)
}

func TestServers_importSameMachine(t *testing.T) {
	_, send := newBMCSite(t)
	require.Equal(t, http.StatusCreated, send(http.MethodPost, "", bmcBody).Code)
	for _, query := range []string{"?dry_run=true", ""} {
		var imported BMCImport
		require.NoError(t, json.Unmarshal(send(http.MethodPost, "/import"+query,
			"n2,192.0.2.7,root,x\n").Body.Bytes(), &imported))
		require.Equal(t, 1, imported.Failed)
		require.Contains(t, imported.Rows[0].Error, "The server n2 would be the same machine as the server n1")
	}
	require.Equal(t, http.StatusNotFound, send(http.MethodGet, "/n2", "").Code)
}

func TestServers_bootOfRunningHost(t *testing.T) {
	_, send := newBMCSiteOf(t, hostOfServer{&bmc.Host{Name: "edge-0", ClusterID: "c1",
		MACs: []string{"52:54:00:00:00:07"}, Status: "installing-in-progress", Stage: "Writing image to disk"}})
	require.Equal(t, http.StatusCreated, send(http.MethodPost, "", strings.Replace(bmcBody, `"name": "n1"`,
		`"name": "n1", "boot_mac": "52:54:00:00:00:07"`, 1)).Code)
	response := send(http.MethodPost, "/n1/actions/boot", "")
	require.Equal(t, http.StatusConflict, response.Code)
	var refused struct{ Host, Reason, Code string }
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &refused))
	require.Equal(t, "edge-0", refused.Host)
	require.Equal(t, "409", refused.Code)
	require.Contains(t, refused.Reason, "the host edge-0 of the cluster berlin, which is being installed (Writing "+
		"image to disk); a boot from the image ends the installation")
	require.Equal(t, http.StatusAccepted, send(http.MethodPost, "/n1/actions/boot", `{"force": true}`).Code)
}
