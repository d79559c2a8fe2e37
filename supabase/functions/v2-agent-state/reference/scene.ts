/** What the examples are about. The tests that send them put real things in its place. */

/** Ids and values that an example cannot make up by itself. */
export interface Scene {
  /** An agent with a confirmed snapshot at sequence 0, and where that is stored. */
  agentId: string;
  storagePath: string;
  /** A team, the caller who made it, and another member who holds a grant. */
  teamId: string;
  callerId: string;
  memberId: string;
  /** A key of the caller's account; a key of the team, bound to the caller. */
  keyId: string;
  subkeyId: string;
  webhookId: string;
  /** Where a receiver of webhooks listens. */
  webhookUrl: string;
  /** Of an invitation to the caller. */
  invitationToken: string;
  /** Of an identity provider that nobody else has. */
  metadataXml: string;
  /** A token of the team's directory, a user and a group in it. */
  scimTokenId: string;
  scimUserId: string;
  scimGroupId: string;
  /** From mails: that confirms an address, that wants no more. */
  confirmationToken: string;
  unsubscribeToken: string;
  /** The headers of an event that the payment provider signed. */
  sign(body: string): Record<string, string>;
}

/** What the reference shows. */
export const SHOWN: Scene = {
  agentId: "my-agent",
  storagePath: "my-agent/seq-0-9f86d081884c.bin",
  teamId: "7d3c2a9e-58f1-4a06-9d41-6f0f3b8a2c15",
  callerId: "user-1",
  memberId: "user-2",
  keyId: "3f8e1c52-9d1b-4c55-8a7e-5b0f2f6c1a90",
  subkeyId: "b41d6a07-2c8e-4f93-9a65-d07c5e1b8f34",
  webhookId: "c5a7e9d3-0b46-4d28-8e1f-92f4a6b3d710",
  webhookUrl: "https://hooks.example.com/agent-state",
  invitationToken: "inv_5tq1mZ8rW3kVh0yYB9sLx2cJfU7nEoPgDa4iRbTvKQw",
  metadataXml: "<EntityDescriptor …>…</EntityDescriptor>",
  scimTokenId: "e8d4f1b2-7a36-4c95-b0de-13a5c8f79e42",
  scimUserId: "2819c223-7f76-453a-919d-413861904646",
  scimGroupId: "902c246b-6245-4190-8e05-00816be7344a",
  confirmationToken:
    "M2Y4ZTFjNTItOWQxYi00YzU1LThhN2UtNWIwZjJmNmMxYTkw.kqI1zVn0pXy3Jm5uQ8bTfLr7WcEa2hDgS4oKvN6tYxM",
  unsubscribeToken: "QFNAzZrJSwi5OACu4_DbLdZzJWvDGJh-UeF361PMobI.pV7sYd2mK9wTq4LxR8nBzJ3cHf6gA1eUo5iXtZrNvWk",
  sign: () => ({
    "webhook-id": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
    "webhook-timestamp": "1795176000",
    "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  }),
};
