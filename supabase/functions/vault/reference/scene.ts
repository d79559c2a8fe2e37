/** What the examples are about. */

/** Ids and values that an example cannot make up by itself. */
export interface Scene {
  vaultId: string;
  heirId: string;
  guardianId: string;
  assetId: string;
  changeId: string;
  claimId: string;
  /** Of an heir or guardian, from a mail. */
  token: string;
  publicKey: string;
}

/** What the reference shows. */
export const SHOWN: Scene = {
  vaultId: "9c1e7a52-3b0d-4f68-8e21-5a9d04c6b7f3",
  heirId: "4a7b2c91-6e3f-4d05-b8a2-1f7c9e5d3b60",
  guardianId: "e07d5b38-91c4-4a2f-a6e3-8b4f2d1c7a95",
  assetId: "62f9d1e4-0a8b-4c37-9d52-e3b7a5f8c106",
  changeId: "b38e6f07-5d2a-4901-8c7f-a4e1d9b3c528",
  claimId: "77c4a0e9-2f6b-4d81-b3a5-c9e8f7d61042",
  token: "inv_5tq1mZ8rW3kVh0yYB9sLx2cJfU7nEoPgDa4iRbTvKQw",
  publicKey: "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n",
};
