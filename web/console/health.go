package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/health"
	"landfall/appliance/monitoring"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Paths of the health checks. Each check also has a path of its own below them.
const (
	LivePath  = "/livez"
	ReadyPath = "/readyz"
)

// MonitorOperations returns the operations that show the metrics and the health of the appliance.
func MonitorOperations(m *monitoring.Monitor) []operation.Operation {
	return append(MetricsOperations(m.Metrics), healthOperations(m.Live, m.Ready)...)
}

// healthOperations returns the operations that report whether the appliance is alive and ready. As
// in Kubernetes, the answer of a success is the word ok, with ?verbose one line for each check, and
// ?exclude=NAME omits a check. A failure has the status 503 and always one line for each check.
func healthOperations(live, ready *health.Checks) []operation.Operation {
	parameters := []operation.Parameter{{Name: "verbose"}, {Name: "exclude", Type: operation.TextList}}
	of := func(id, path, summary string, checks *health.Checks) []operation.Operation {
		return []operation.Operation{
			{ID: "get" + id, Method: http.MethodGet, Path: path, Access: operation.Public(), Quiet: true, Head: true,
				Handler:    func(c echo.Context) error { return writeHealth(c, path[1:], checks) },
				Parameters: parameters, Summary: summary, Status: http.StatusOK, Answer: operation.File{},
				Errors: []int{503}},
			{ID: "get" + id + "Check", Method: http.MethodGet, Path: path + "/:check", Access: operation.Public(),
				Quiet: true, Head: true, Handler: func(c echo.Context) error { return writeCheck(c, path[1:], checks) },
				Summary: summary + ", by one check", Status: http.StatusOK, Answer: operation.File{},
				Errors: []int{404, 503}},
		}
	}
	return append(of("Liveness", LivePath, "Report whether the appliance is alive", live),
		of("Readiness", ReadyPath, "Report whether the appliance is ready for requests", ready)...)
}

func writeHealth(c echo.Context, name string, checks *health.Checks) error {
	excluded := c.QueryParams()["exclude"]
	results := checks.Results(c.Request().Context(), func(check string) bool {
		return !slices.Contains(excluded, check)
	})
	return answerHealth(c, name, results, excluded, c.QueryParams().Has("verbose"))
}

func writeCheck(c echo.Context, name string, checks *health.Checks) error {
	wanted := c.Param("check")
	if !checks.Has(wanted) {
		return problem.NotFound("%s has no such check; /%s?verbose lists all checks", name, name)
	}
	results := checks.Results(c.Request().Context(), func(check string) bool { return check == wanted })
	return answerHealth(c, name, results, nil, c.QueryParams().Has("verbose"))
}

func answerHealth(c echo.Context, name string, results []health.Result, excluded []string, verbose bool) error {
	var text strings.Builder
	status, outcome := http.StatusOK, "passed"
	for _, result := range results {
		if result.Err != nil {
			status, outcome = http.StatusServiceUnavailable, "failed"
			fmt.Fprintf(&text, "[-]%s failed: %s\n", result.Name, result.Err)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", result.Name)
	}
	for _, check := range excluded {
		fmt.Fprintf(&text, "[+]%.64q excluded: ok\n", check)
	}
	fmt.Fprintf(&text, "%s check %s\n", name, outcome)
	if status == http.StatusOK && !verbose {
		text.Reset()
		text.WriteString("ok")
	}
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, "no-cache, private")
	header.Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.String(status, text.String())
}
