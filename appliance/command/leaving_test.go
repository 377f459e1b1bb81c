package command

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
)

func TestFault54_asksOnATerminalOnly(t *testing.T) {
	one := []registry.Dependent{{Name: "east", Domain: "site.example.com"}}
	for name, c := range map[string]struct {
		dependents []registry.Dependent
		err        error
		signal     os.Signal
		terminal   bool
		answer     string
		stops      bool
		says, logs string
	}{
		"nobody depends on it":    {nil, nil, os.Interrupt, true, "", true, "", ""},
		"yes":                     {one, nil, os.Interrupt, true, "y\n", true, "east.site.example.com", ""},
		"no":                      {one, nil, os.Interrupt, true, "\n", false, "The appliance goes on.", ""},
		"the input ends":          {one, nil, os.Interrupt, true, "", false, "The appliance goes on.", ""},
		"a service manager":       {one, nil, syscall.SIGTERM, true, "n\n", true, "", "east.site.example.com"},
		"without a terminal":      {one, nil, os.Interrupt, false, "n\n", true, "", "east.site.example.com"},
		"the store can't be read": {nil, errors.New("damaged"), os.Interrupt, true, "", true, "", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, logged bytes.Buffer
			l := leaving{dependents: func() ([]registry.Dependent, error) { return c.dependents, c.err },
				terminal: c.terminal, in: strings.NewReader(c.answer), out: &out,
				log: slog.New(slog.NewTextHandler(&logged, nil))}
			require.Equal(t, c.stops, l.stops(c.signal))
			require.Contains(t, out.String(), c.says)
			require.Equal(t, c.says == "", out.Len() == 0)
			require.Contains(t, logged.String(), c.logs)
			require.Equal(t, c.logs == "", logged.Len() == 0)
		})
	}
}
