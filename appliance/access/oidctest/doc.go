// Package oidctest tests package oidc with dex, a provider that sites really use.
package oidctest
