// Package hostile attacks a hub and its agents: real programs, by real
// identities. A hostile agent, tenant, bootstrap token and work author try what
// they must not get; each attempt is counted, and the run ends with how many
// were refused.
package hostile
