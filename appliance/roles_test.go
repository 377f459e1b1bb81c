package appliance

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/engine/pagetest"
	"landfall/web"
	"landfall/web/operation"
)

var update = flag.Bool("update", false, "write docs/security.md's table of operations")

const (
	securityPage = "../docs/security.md"
	tableBegins  = "<!-- The table of operations begins here. make docs writes it. -->\n"
	tableEnds    = "<!-- The table of operations ends here. -->\n"
)

// tableOf returns the table of all operations of a server, sorted by route.
func tableOf(server *web.Server) string {
	type row struct{ path, method, text string }
	var rows []row
	for route, o := range server.Routes() {
		if o.ID == "" && o.Access.CheckedBy == "" || o.Method != route.Method && o.Method != operation.Any ||
			route.Method == operation.RouteNotFound {
			continue // a route without an operation, HEAD, or another path below a prefix
		}
		if o.Method == operation.Any && route.Method != "GET" {
			continue
		}
		method := o.Method
		if method == operation.Any {
			method = "any"
		}
		rows = append(rows, row{route.Path, method, fmt.Sprintf("| %s | `%s %s` | %s | %s | %s |\n", cmp.Or(o.ID, "–"),
			method, route.Path, callersOf(o.Access), scopeOf(o), secretOf(o.Access))})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.method,
			b.method))
	})
	var table strings.Builder
	table.WriteString("| operation | route | callers | scope | secret |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		table.WriteString(r.text)
	}
	return table.String()
}

func callersOf(rule operation.Access) string {
	switch {
	case rule.Public:
		return "everybody"
	case rule.CheckedBy != "":
		return "checked by " + rule.CheckedBy
	}
	callers := rule.Role.String()
	if rule.Lower != nil {
		callers += fmt.Sprintf("; %s if %s is %s", rule.Lower.Role, rule.Lower.Parameter,
			strings.Join(rule.Lower.Values, " or "))
	}
	if rule.Agents {
		callers += ", agents"
	}
	if rule.Links {
		callers += ", links"
	}
	return callers
}

func scopeOf(o operation.Operation) string {
	switch {
	case o.Access.Public || o.Access.CheckedBy != "":
		return ""
	case o.Access.Scope == operation.Shared:
		return "shared"
	case o.Access.Scope == operation.Filtered:
		return "own"
	case strings.Contains(o.Path, ":cluster_id"):
		return "cluster"
	case strings.Contains(o.Path, ":infra_env_id"):
		return "infra-env"
	}
	return "site"
}

func secretOf(rule operation.Access) string {
	if rule.Secret {
		return "yes"
	}
	return ""
}

func TestSecurityPage_listsAllOperations(t *testing.T) {
	a := newGuarded(t)
	table := tableOf(a.server)
	text, err := os.ReadFile(securityPage)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), tableBegins)
	require.True(t, found)
	written, after, found := strings.Cut(rest, tableEnds)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(securityPage, []byte(before+tableBegins+table+tableEnds+after), 0o644))
		return
	}
	pagetest.Current(t, "the table of operations in docs/security.md", table, written)
}

// TestRoles_onAllRoutes calls every operation as each kind of caller, and compares the status with
// the table of docs/security.md.
func TestRoles_onAllRoutes(t *testing.T) {
	a := newGuarded(t)
	routes := a.server.Routes()
	for _, route := range slices.SortedFunc(maps.Keys(routes), destructiveLast) {
		o := routes[route]
		if o.Access.Public || o.Access.CheckedBy != "" || o.Method == operation.Any {
			continue
		}
		// The callers who may delete the objects in the path come last.
		for _, name := range []string{"nobody", "agent", "viewer", "limited to others", "limited", "operator",
			"admin"} {
			caller := a.callers[name]
			permitted := a.permitted(o, caller)
			status := a.status(t, route.Method, a.fill(o.Path), caller)
			switch {
			case name == "nobody" && !permitted:
				require.Equal(t, 401, status, "%s %s as nobody", route.Method, route.Path)
			case !permitted:
				require.Equal(t, 403, status, "%s %s as %s", route.Method, route.Path, name)
			case !slices.Contains(ownRules, o.ID):
				require.NotContains(t, []int{401, 403}, status, "%s %s as %s", route.Method, route.Path, name)
			}
		}
	}
}

// destructiveLast sorts the deletion of clusters and infra-envs behind all other routes.
func destructiveLast(a, b *echo.Route) int {
	destructive := func(r *echo.Route) int {
		switch {
		case r.Method == http.MethodDelete && strings.HasSuffix(r.Path, "/:infra_env_id"):
			return 1
		case r.Method == http.MethodDelete && strings.HasSuffix(r.Path, "/:cluster_id"):
			return 2
		}
		return 0
	}
	return cmp.Or(cmp.Compare(destructive(a), destructive(b)), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Method, b.Method))
}

// ownRules are operations that forbid some requests of permitted callers: the password of another
// account, and events outside of the scope.
var ownRules = []string{"setUserPassword", "v2ListEvents"}

func (g *guarded) permitted(o operation.Operation, caller caller) bool {
	if caller.agent {
		return o.Access.Agents
	}
	if caller.role < o.Access.Role || caller.role == access.None {
		return false
	}
	if !caller.limited || o.Access.Scope != operation.OfPath {
		return true
	}
	return !caller.foreign &&
		(strings.Contains(o.Path, ":cluster_id") || strings.Contains(o.Path, ":infra_env_id"))
}
