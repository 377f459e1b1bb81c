package upgrade

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindUnit(t *testing.T) {
	answer := "LoadState=loaded\nActiveState=active\nFragmentPath=/etc/systemd/system/landfall.service\n" +
		"ExecStart={ path=/usr/local/bin/landfall ; argv[]=/usr/local/bin/landfall serve --config " +
		"/etc/landfall/config.yaml --data-dir=/srv/data ; ignore_errors=no ; pid=12 ; code=(null) ; status=0/0 }\n"
	var called []string
	systemctl := func(text string) func(context.Context, ...string) (string, error) {
		return func(_ context.Context, arguments ...string) (string, error) {
			called = append(called, strings.Join(arguments, " "))
			return text, nil
		}
	}
	unit := findUnit(t.Context(), systemctl(answer))
	require.NotNil(t, unit)
	require.Equal(t, "/usr/local/bin/landfall", unit.Program)
	require.Equal(t, "/etc/landfall/config.yaml", unit.Option("--config"))
	require.Equal(t, "/srv/data", unit.Option("--data-dir"))
	require.Empty(t, unit.Option("--listen"))
	require.True(t, unit.Active)
	require.False(t, unit.Packaged)
	require.NoError(t, unit.Restart(t.Context()))
	require.Equal(t, "restart landfall.service", called[len(called)-1])

	packaged := findUnit(t.Context(), systemctl(strings.ReplaceAll(answer, "/etc/systemd", "/usr/lib/systemd")))
	require.True(t, packaged.Packaged)
	require.Nil(t, findUnit(t.Context(), systemctl("LoadState=not-found\nActiveState=inactive\nFragmentPath=\n")))
	require.Nil(t, findUnit(t.Context(), func(context.Context, ...string) (string, error) {
		return "", errors.New("systemctl: not found")
	}))
}
