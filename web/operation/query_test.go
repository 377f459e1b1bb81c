package operation

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestReadFlag(t *testing.T) {
	for query, want := range map[string]struct {
		truth   bool
		problem string
	}{
		"":              {},
		"other=true":    {},
		"dry_run=true":  {truth: true},
		"dry_run=True":  {truth: true},
		"dry_run=1":     {truth: true},
		"dry_run=false": {},
		"dry_run=0":     {},
		"dry_run=yes":   {problem: `dry_run is "yes"; expected true or false`},
		"dry_run":       {problem: `dry_run is ""; expected true or false`},
	} {
		t.Run(query, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
			truth, err := ReadFlag(echo.New().NewContext(request, nil), "dry_run")
			if want.problem != "" {
				require.ErrorContains(t, err, want.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.truth, truth)
		})
	}
}
