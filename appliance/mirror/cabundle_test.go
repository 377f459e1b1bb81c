package mirror

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinBundles(t *testing.T) {
	certificate := string(newAuthority(t, "site").pem)
	require.Equal(t, "no PEM\n"+strings.TrimSpace(certificate)+"\n",
		string(JoinBundles("no PEM ", certificate+"# a comment\n\n", certificate)))
	require.Nil(t, JoinBundles("", " "))
}
