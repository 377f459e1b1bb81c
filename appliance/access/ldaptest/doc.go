// Package ldaptest tests package ldap with OpenLDAP's server slapd. The tests have the build tag
// slapd.
package ldaptest
