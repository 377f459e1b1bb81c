package trust

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/keyring"
	"landfall/appliance/process/ownertest"
	"landfall/appliance/sitekey"
	"landfall/store"
	api "landfall/web/access"
	"landfall/web/console"
	"landfall/web/problem"
)

// run runs a command with a configuration directory of the test.
func run(t *testing.T, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	group := func(parent *cobra.Command, commands ...*cobra.Command) { parent.AddCommand(commands...) }
	root := &cobra.Command{Use: "landfall", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(group)...)
	var stdout, stderr bytes.Buffer
	root.SetArgs(arguments)
	root.SetIn(new(bytes.Buffer))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func home(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"LANDFALL_TOKEN", "LANDFALL_URL", "LANDFALL_CA", "LANDFALL_DATA_DIR"} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// request is what the server of a test received.
type request struct {
	method, path, authorization string
	body                        map[string]any
}

// serve answers every request with a value, and records the last one.
func serve(t *testing.T, answer any) (url string, last *request) {
	t.Helper()
	last = new(request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == console.FleetRoute {
			http.NotFound(w, r) // an older appliance
			return
		}
		*last = request{method: r.Method, path: r.URL.Path, authorization: r.Header.Get("Authorization")}
		if r.ContentLength > 0 {
			if err := json.NewDecoder(r.Body).Decode(&last.body); err != nil {
				t.Error(err)
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, last
}

// loggedIn is the answer to a login.
func loggedIn(token string) api.Login {
	return api.Login{Whoami: api.Whoami{Kind: access.Person, Name: "ana", Role: access.Administrator}, Token: token,
		ExpiresAt: time.Now().Add(time.Hour)}
}

func TestLogin_storesContextForLaterCommands(t *testing.T) {
	home(t)
	url, last := serve(t, loggedIn("s3cret"))
	out, _, err := run(t, "login", "--url", url, "--setup-code", writeFile(t, "ABCD-EFGH\n"), "--user", "ana",
		"--password-file", writeFile(t, "pass word\n"))
	require.NoError(t, err)
	require.Contains(t, out, "Logged in to "+url+" as ana (admin)")
	require.NotContains(t, out, "s3cret")
	require.Equal(t, request{"POST", "/api/landfall/v1/setup", "", map[string]any{"code": "ABCD-EFGH", "name": "ana",
		"password": "pass word", "kind": "token"}}, *last)

	_, _, err = run(t, "login", url, "--user", "ana", "--password-file", writeFile(t, "pass word"))
	require.NoError(t, err)
	require.Equal(t, "/api/landfall/v1/login", last.path)

	_, _, err = run(t, "session", "end", "s1")
	require.NoError(t, err)
	require.Equal(t, request{"DELETE", "/api/landfall/v1/sessions/s1", "Bearer s3cret", nil}, *last)
	out, _, err = run(t, "context", "list")
	require.NoError(t, err)
	require.Contains(t, out, url)
	require.NotContains(t, out, "s3cret")

	_, _, err = run(t, "logout")
	require.NoError(t, err)
	require.Equal(t, request{"POST", "/api/landfall/v1/logout", "Bearer s3cret", map[string]any(nil)}, *last)
	out, _, err = run(t, "context", "list")
	require.NoError(t, err)
	require.Contains(t, out, "logged out")
	_, _, err = run(t, "logout")
	require.ErrorContains(t, err, "you are not logged in")
}

// The login at a member of a fleet has the addresses of the others. They come with the token. While
// they may be incomplete, those of the earlier login stay.
func TestLogin_storesMembersOfFleet(t *testing.T) {
	const two, three = "https://192.0.2.2:8090", "https://192.0.2.3:8090"
	home(t)
	status, code := membership.Status{}, http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = loggedIn("s3cret")
		if r.URL.Path == console.FleetRoute {
			require.Equal(t, "Bearer s3cret", r.Header.Get("Authorization"))
			answer = status
			w.WriteHeader(code)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	ca := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for _, c := range []struct {
		name    string
		code    int
		problem string
		members []string
		want    []string
	}{
		{"first login without etcd", http.StatusOK, "etcd does not answer", []string{two}, []string{two}},
		{"all", http.StatusOK, "", []string{two, three}, []string{two, three}},
		{"without etcd", http.StatusOK, "etcd does not answer", []string{two}, []string{two, three}},
		{"without a leader", http.StatusServiceUnavailable, "", nil, []string{two, three}},
		{"one has left", http.StatusOK, "", []string{three}, []string{three}},
		{"an account of some clusters", http.StatusForbidden, "", nil, nil},
	} {
		status, code = membership.Status{Fleet: "f1", Problem: c.problem}, c.code
		for _, url := range c.members {
			status.Members = append(status.Members, membership.Member{URL: url})
		}
		_, _, err := run(t, "login", server.URL, "--ca", ca, "--user", "ana", "--password-file", writeFile(t, "x"))
		require.NoError(t, err)
		contexts, err := remote.LoadContexts()
		require.NoError(t, err)
		require.Len(t, contexts.All, 1)
		require.Equal(t, c.want, contexts.All[0].Members, c.name)
	}
}

// Nothing is sent: the URL has no appliance.
func TestArguments_wrongOnesHaveTheirExitCode(t *testing.T) {
	home(t)
	for want, arguments := range map[string][]string{
		"--role is missing":               {"user", "create", "ana"},
		"--role: ":                        {"user", "create", "ana", "--role", "typo"},
		"nothing to change":               {"user", "set", "ana"},
		"--everything or a scope":         {"user", "set", "ana", "--disable", "--enable"},
		"--expires is \"soon\"; expected": {"token", "create", "ci", "--role", "viewer", "--expires", "soon"},
	} {
		_, _, err := run(t, append(arguments, "--url", "https://192.0.2.1:1")...)
		require.ErrorContains(t, err, want)
		code, _ := outcome.Of(err)
		require.Equal(t, outcome.Usage, code, want)
	}
}

func TestContext_useAndRemove(t *testing.T) {
	home(t)
	url, last := serve(t, loggedIn("one"))
	other, lastOther := serve(t, loggedIn("two"))
	for _, one := range []string{url, other} {
		_, _, err := run(t, "login", "--url", one, "--user", "ana", "--password-file", writeFile(t, "x"), "--context",
			map[string]string{url: "east", other: "west"}[one])
		require.NoError(t, err)
	}
	_, _, err := run(t, "session", "end", "s1")
	require.NoError(t, err)
	require.Equal(t, "Bearer two", lastOther.authorization)
	_, _, err = run(t, "context", "use", "east")
	require.NoError(t, err)
	_, _, err = run(t, "session", "end", "s1")
	require.NoError(t, err)
	require.Equal(t, "Bearer one", last.authorization)
	_, _, err = run(t, "context", "remove", "east")
	require.NoError(t, err)
	_, _, err = run(t, "context", "use", "east")
	require.ErrorContains(t, err, "does not exist")
}

const eastID = "7b1c5a0e-0000-4000-8000-000000000004"

func TestScope_namesBecomeIDs(t *testing.T) {
	home(t)
	password := writeFile(t, "correct horse battery")
	for name, arguments := range map[string][]string{
		"create a token":    {"token", "create", "ci", "--role", "viewer"},
		"create a user":     {"user", "create", "ana", "--role", "viewer", "--password-file", password},
		"change an account": {"user", "set", "ana"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent struct{ Clusters []string }
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_ = json.NewEncoder(w).Encode([]map[string]string{{"id": eastID, "name": "east"}})
					return
				}
				_ = json.NewDecoder(r.Body).Decode(&sent)
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			_, _, err := run(t, append(arguments, "--cluster", "east", "--url", server.URL)...)
			require.NoError(t, err)
			require.Equal(t, []string{eastID}, sent.Clusters)
			_, _, err = run(t, append(arguments, "--cluster", "west", "--url", server.URL)...)
			require.ErrorContains(t, err, "the cluster west does not exist")
		})
	}
}

func TestToken_createPrintsTokenAlone(t *testing.T) {
	home(t)
	url, last := serve(t, api.Token{Name: "ci", Token: "lf_secret"})
	out, errOut, err := run(t, "token", "create", "ci", "--role", "operator", "--cluster", eastID, "--expires",
		"30d", "--url", url)
	require.NoError(t, err)
	require.Equal(t, "lf_secret\n", out)
	require.NotContains(t, errOut, "lf_secret")
	require.Equal(t, "operator", last.body["role"])
	require.Equal(t, []any{eastID}, last.body["clusters"])
	ends, err := time.Parse(time.RFC3339, last.body["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(30*24*time.Hour), ends, time.Minute)
}

func TestCommands_wrongArguments(t *testing.T) {
	home(t)
	url, _ := serve(t, map[string]any{"auth": "local"})
	unused, _ := serve(t, map[string]any{"auth": "local", "setup": true})
	cases := map[string]struct {
		arguments []string
		want      string
	}{
		"no role":          {[]string{"token", "create", "x"}, `--role is missing; choose viewer`},
		"unknown role":     {[]string{"token", "create", "x", "--role", "root"}, "the roles are viewer"},
		"validity":         {[]string{"token", "create", "x", "--role", "admin", "--expires", "soon"}, "such as 30d"},
		"no user":          {[]string{"login", url}, "--user is missing"},
		"two URLs":         {[]string{"login", "bastion", "--url", "bastion"}, "give the URL once"},
		"no password":      {[]string{"login", url, "--user", "ana"}, "--password-file is missing"},
		"no account":       {[]string{"login", unused}, "has no account yet; make the first administrator with"},
		"no setup code":    {[]string{"login", "--setup-code", "/none"}, "log in without --setup-code"},
		"no change":        {[]string{"user", "set", "ana"}, "nothing to change"},
		"contradiction":    {[]string{"user", "set", "ana", "--enable", "--disable"}, "contradict"},
		"no data":          {[]string{"user", "reset", "a", "--password-file", writeFile(t, "x")}, "check --data-dir"},
		"wrong URL":        {[]string{"token", "list", "--url", "ftp://bastion:8090"}, "is invalid"},
		"wrong authority":  {[]string{"token", "list", "--ca", writeFile(t, "x")}, "contains no certificate"},
		"missing argument": {[]string{"token", "revoke"}, "accepts 1 arg"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, c.arguments...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A lost password is replaced on the stopped appliance's machine. The audit trail records it.
func TestUserReset_stoppedAppliance(t *testing.T) {
	for name, sealed := range map[string]bool{"sealed": true, "in clear": false} {
		t.Run(name, func(t *testing.T) { testReset(t, sealed) })
	}
}

func TestUserPassword_ownAccountInAnySpelling(t *testing.T) {
	home(t)
	for kind, want := range map[access.Kind]map[string]any{
		access.Person:  {"old": "old word", "new": "new word"},
		access.Program: {"new": "new word"},
	} {
		url, last := serve(t, api.Whoami{Kind: kind, Name: "ana"})
		_, _, err := run(t, "user", "password", "Ana", "--url", url, "--old-password-file", writeFile(t, "old word"),
			"--password-file", writeFile(t, "new word"))
		require.NoError(t, err)
		require.Equal(t, want, last.body)
	}
}

// The appliance runs as another user than root, and must be able to read what the command writes.
func TestUserReset_rootWritesAsTheOwner(t *testing.T) {
	const variable = "TEST_RESET_DIRECTORY"
	if dir := os.Getenv(variable); dir != "" { // the child process, which stays the owner
		_, _, err := run(t, "user", "reset", "ana", "--data-dir", dir, "--password-file", dir+".password")
		require.NoError(t, err)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711))
	require.NoError(t, os.WriteFile(dir+".password", []byte("correct horse battery"), 0o600))
	require.NoError(t, os.Mkdir(dir, 0o700))
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, Keys: keyring.New(dir, keyring.Options{}).Open})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	owner := ownertest.Give(t, dir)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"="+dir)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.DirExists(t, filepath.Join(dir, audittrail.DirName))
	ownertest.Require(t, dir, owner)
}

// The running member of a fleet is asked like any other appliance that runs.
func TestUserReset_runningAppliance(t *testing.T) {
	for name, member := range map[string]bool{"member": true, "single machine": false} {
		t.Run(name, func(t *testing.T) {
			home(t)
			dir := t.TempDir()
			db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			if member {
				require.NoError(t, (&fleet.State{Fleet: "f", ID: "i", Member: "one"}).Write(dir))
			}
			url, last := serve(t, loggedIn("s3cret"))
			_, _, err = run(t, "user", "reset", "ana", "--data-dir", dir, "--url", url, "--password-file",
				writeFile(t, "pass word"))
			require.NoError(t, err)
			require.Equal(t, "/api/landfall/v1/setup", last.path)
			require.Equal(t, "pass word", last.body["password"])
			code, err := os.ReadFile(filepath.Join(dir, people.CodeFile))
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(string(code)), last.body["code"])
		})
	}
}

func TestUserReset_anotherApplianceAtTheURL(t *testing.T) {
	for name, status := range map[string]int{"without a code": http.StatusNotFound,
		"other code": http.StatusUnauthorized, "same directory": http.StatusConflict} {
		t.Run(name, func(t *testing.T) {
			home(t)
			dir := t.TempDir()
			db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				problem.Write(w, r, problem.New(status, "the account has no password here"))
			}))
			defer other.Close()
			_, _, err = run(t, "user", "reset", "ana", "--data-dir", dir, "--url", other.URL, "--password-file",
				writeFile(t, "pass word"))
			want := "the appliance at " + other.URL + " has another data directory than " + dir +
				"; give the URL of the appliance that runs with " + dir + " with --url"
			if status == http.StatusConflict {
				want = "the account has no password here"
			}
			require.EqualError(t, err, want)
			require.NoFileExists(t, filepath.Join(dir, people.CodeFile))
		})
	}
}

func testReset(t *testing.T, sealed bool) {
	home(t)
	dir := t.TempDir()
	const password = "correct horse battery"
	keys := keyring.New(dir, keyring.Options{})
	options := store.Options{NoSync: true}
	if sealed {
		options.Keys = keys.Open
	}
	open := func(check func(*store.DB, *people.People)) {
		db, err := store.Open(t.Context(), dir, options)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		accounts, err := people.New(people.Options{DB: db, Clock: clockwork.NewRealClock(), Dir: dir})
		require.NoError(t, err)
		check(db, accounts)
	}
	open(func(*store.DB, *people.People) {})
	out, _, err := run(t, "user", "reset", "ana", "--data-dir", dir, "--password-file", writeFile(t, password+"\n"))
	require.NoError(t, err)
	require.Contains(t, out, "The account ana is an administrator")
	open(func(db *store.DB, accounts *people.People) {
		account, err := accounts.LogIn(t.Context(), "ana", password)
		require.NoError(t, err)
		require.Equal(t, access.Administrator, account.Role)
		key, err := sitekey.LoadSealed(dir, keys.Ring())
		require.NoError(t, err)
		trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), Key: key, DB: db})
		require.NoError(t, err)
		page, err := trail.List(t.Context(), audittrail.Filter{Operation: "resetUser"})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, http.StatusOK, page.Items[0].Status)
		require.NoError(t, trail.Close())
	})
}
