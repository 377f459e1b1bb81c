package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostsUse_variableIsNamed(t *testing.T) {
	const url = "http://127.0.0.1:8090"
	require.Equal(t, "  hosts use      "+url+"; to change it: landfall settings set --url-for-hosts URL\n",
		hostsUse(nil, url, ""))
	require.Equal(t, "  hosts use      "+url+", from the environment variable LANDFALL_URL; if hosts can't reach it, "+
		"start without the variable\n", hostsUse([]string{url}, url, url+"/"))
	require.Empty(t, hostsUse([]string{url}, url, ""), "a person knows the URL in the configuration file")
}
