// Package acmetest tests package authority with Pebble, Let's Encrypt's test server for ACME clients.
package acmetest
