// Package acmetest tests package authority with Pebble, Let's Encrypt's test server for clients of
// ACME.
package acmetest
