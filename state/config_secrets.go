package state

// HideConfigured makes the secrets unreadable that are configured here: whatever quotes the configuration, or an answer to
// a request, may hold one. What a command prints is hidden by whoever runs it.
func (r *Redactor) HideConfigured(env Getenv, c *Config) {
	r.Hide(c.WebhookURL)
	r.Hide(c.AnthropicKey)
	if l, err := ReadLogin(LoginFile(env)); err == nil {
		r.Hide(l.RefreshToken)
		r.Hide(l.ClientSecret)
	}
}
