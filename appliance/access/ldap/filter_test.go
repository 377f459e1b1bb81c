package ldap

import (
	"testing"

	"github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"
)

func FuzzFill_valuesCannotChangeTheFilter(f *testing.F) {
	f.Add("ana)(uid=*", "cn=a")
	f.Add("\\2a", "{name}")
	f.Fuzz(func(t *testing.T, name, dn string) {
		filter, err := ldap.CompileFilter(fill("(&(uid={name})(member={dn}))", name, dn))
		if err != nil {
			return // not UTF-8; such names are rejected before
		}
		require.EqualValues(t, ldap.FilterAnd, filter.Tag)
		require.Len(t, filter.Children, 2)
		for i, value := range []string{name, dn} {
			require.EqualValues(t, ldap.FilterEqualityMatch, filter.Children[i].Tag)
			require.Equal(t, value, filter.Children[i].Children[1].Data.String())
		}
	})
}
